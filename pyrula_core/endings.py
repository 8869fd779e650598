"""How an attempt at a run ended: the closed set of answers an executor can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyrula_core.errors import PyrulaError
from pyrula_core.events import Event, Payload
from pyrula_core.model import RunKind
from pyrula_core.ports import Record, RecordRange

__all__ = [
    "Cancelled",
    "Completed",
    "Continued",
    "Ending",
    "Failed",
    "StoodDown",
    "Waiting",
    "run_code",
]

# Errors whose own code says more of a run's end than "its code failed".
SPEAKING: Final = frozenset(
    {
        "event_refused",
        "fatal",
        "interrupt_swallowed",
        "nondeterminism",
        "outcome_unknown",
        "payload_too_large",
        "poison",
        "result_not_serializable",
        "value_type_unknown",
    }
)


def run_code(error: BaseException, kind: RunKind) -> str:
    """Return the code of a run that ``error`` ended: its own where it says more."""
    own = error.code if isinstance(error, PyrulaError) else ""
    if own in SPEAKING:
        return own
    return "agent_error" if kind is RunKind.AGENT else "internal"


@dataclass(frozen=True, slots=True)
class Completed:
    """The run has its result; ``events`` are recorded just before it, ``records`` with it."""

    output: Payload
    events: Sequence[Event] = ()
    records: Sequence[Record | RecordRange] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed for good, with a stable ``code`` and the recorded ``failure``."""

    code: str
    failure: dict[str, Any]
    user_code: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    events: Sequence[Event] = ()
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run ended because somebody cancelled it."""

    events: Sequence[Event] = ()
    records: Sequence[Record | RecordRange] = ()


@dataclass(frozen=True, slots=True)
class Continued:
    """The run goes on as a new one with this input; ``run_id`` is the new one's, once created."""

    input: Payload
    events: Sequence[Event] = ()
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run is suspended, and that has been recorded already with the lease given back."""

    paused: bool = False


@dataclass(frozen=True, slots=True)
class StoodDown:
    """The attempt may write nothing more; somebody else goes on, or nobody needs to."""

    error: BaseException | None = None


Ending = Completed | Failed | Cancelled | Continued | Waiting | StoodDown
