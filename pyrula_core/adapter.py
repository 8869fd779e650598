"""What an adapter for another framework builds upon; ``pyrula_langgraph`` uses nothing deeper.

An adapter brings an ``Executor``: it is given an ``Attempt``, the only door to the run's journal,
and says how the attempt ended. These names follow the library's version like all public ones.
"""

from __future__ import annotations

from pyrula_core.attempt import Ack, Attempt
from pyrula_core.background import SyncCalls, run_sync
from pyrula_core.endings import (
    Cancelled,
    Completed,
    Continued,
    Ending,
    Failed,
    StoodDown,
    Waiting,
    run_code,
)
from pyrula_core.engine import Engine, lease_ttl_s, orphan_budget
from pyrula_core.failure import FailureRecord, capture
from pyrula_core.history import read_history
from pyrula_core.machine import Question, RunState, fold
from pyrula_core.owners import is_dead
from pyrula_core.rebuild import live, rebuild
from pyrula_core.registry import REGISTRY, Definition, Executor, Registry
from pyrula_core.retry_config import as_policy
from pyrula_core.substeps import RUN, DurableCalls, NodeRun, SubstepRecords

__all__ = [
    "REGISTRY",
    "RUN",
    "Ack",
    "Attempt",
    "Cancelled",
    "Completed",
    "Continued",
    "Definition",
    "DurableCalls",
    "Ending",
    "Engine",
    "Executor",
    "Failed",
    "FailureRecord",
    "NodeRun",
    "Question",
    "Registry",
    "RunState",
    "StoodDown",
    "SubstepRecords",
    "SyncCalls",
    "Waiting",
    "as_policy",
    "capture",
    "fold",
    "is_dead",
    "lease_ttl_s",
    "live",
    "orphan_budget",
    "read_history",
    "rebuild",
    "run_code",
    "run_sync",
]
