"""What users test with: a clock they move, repeatable randomness, the laws of a store."""

from __future__ import annotations

from pyrula_core.testing.clock import ManualClock, SeededEntropy
from pyrula_core.testing.conformance import CHECKS, check, run_check
from pyrula_core.testing.laws import Bench, Check, Finding, LawBroken, Report, Storage

__all__ = [
    "CHECKS",
    "Bench",
    "Check",
    "Finding",
    "LawBroken",
    "ManualClock",
    "Report",
    "SeededEntropy",
    "Storage",
    "check",
    "run_check",
]
