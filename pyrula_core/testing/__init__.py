"""What users test with: virtual time, stores that fail, every crash there can be, golden journals.

``simulate`` runs a workflow on virtual time, ``explore`` crashes it at every durable write,
``replay`` says whether code still matches a recorded journal, ``check`` tries the laws of a store.
``pyrula_core.testing.fixtures`` holds the pytest fixtures.
"""

from __future__ import annotations

from typing import Any

from pyrula_core.testing.clock import ManualClock, SeededEntropy
from pyrula_core.testing.conformance import CHECKS, check, run_check
from pyrula_core.testing.explore import Report as ExploreReport
from pyrula_core.testing.explore import Violation, explore, swarm
from pyrula_core.testing.faults import Fault, FaultKind, Faults
from pyrula_core.testing.faulty_store import FaultyStore, SimulatedCrash
from pyrula_core.testing.laws import Bench, Check, Finding, LawBroken, Report, Storage
from pyrula_core.testing.replaying import Replayed, journal_from_json, journal_to_json, replay
from pyrula_core.testing.scenario import Case, Outcome, Scenario, simulate
from pyrula_core.testing.sim_loop import SimClock, SimLoop, SimOverrun, SimStuck, run_simulated

__all__ = [
    "CHECKS",
    "Bench",
    "Case",
    "Check",
    "ExploreReport",
    "Fault",
    "FaultKind",
    "Faults",
    "FaultyStore",
    "Finding",
    "LawBroken",
    "ManualClock",
    "Outcome",
    "Replayed",
    "Report",
    "Scenario",
    "SeededEntropy",
    "SimClock",
    "SimLoop",
    "SimOverrun",
    "SimStuck",
    "SimulatedCrash",
    "Storage",
    "Violation",
    "check",
    "explore",
    "journal_from_json",
    "journal_to_json",
    "replay",
    "run_check",
    "run_simulated",
    "simulate",
    "swarm",
]


def __getattr__(name: str) -> Any:
    """Load the fixtures when one is asked for: pytest is there only where tests are."""
    if name.startswith("pyrula_"):
        from pyrula_core.testing import fixtures

        return getattr(fixtures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
