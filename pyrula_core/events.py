"""The closed list of event types and what each must carry.

Owns ``Event`` and the table of required fields. Adding a type means a codec test, a golden
journal, a replay test and a changelog line; removing one is never allowed, since old journals open
for ever. Must never do IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pyrula_core.errors import JournalError

__all__ = [
    "EXTERNAL",
    "STEP_OUTCOMES",
    "TAGS",
    "TERMINAL",
    "Event",
    "EventType",
    "Payload",
    "check_fields",
]


class EventType(StrEnum):
    """The wire-visible names of events; stable for ever."""

    RUN_CREATED = "run:created"
    RUN_CLAIMED = "run:claimed"
    RUN_REQUEUED = "run:requeued"
    RUN_PAUSED = "run:paused"
    RUN_RESUMED = "run:resumed"
    RUN_CANCEL_REQUESTED = "run:cancel_requested"
    RUN_COMPLETE = "run:complete"
    RUN_ERROR = "run:error"
    RUN_CANCELLED = "run:cancelled"
    RUN_CONTINUED = "run:continued"
    STEP_STARTED = "step:started"
    STEP_DONE = "step:done"
    STEP_ERROR = "step:error"
    STEP_RETRYING = "step:retrying"
    TIMER_SET = "timer:set"
    TIMER_FIRED = "timer:fired"
    SIGNAL_RECEIVED = "signal:received"
    INTERRUPT_OPENED = "interrupt:opened"
    INTERRUPT_ANSWERED = "interrupt:answered"
    INTERRUPT_CLOSED = "interrupt:closed"
    CHILD_STARTED = "child:started"
    CHILD_DONE = "child:done"
    CHILD_ERROR = "child:error"
    UPDATE_HANDLED = "update:handled"
    UPDATE_REJECTED = "update:rejected"
    GRAPH_CHECKPOINT = "graph:checkpoint"
    UPDATE_REQUESTED = "update:requested"


# A tag is one byte on disk. Numbers are never reused and never reordered.
TAGS: Final[dict[EventType, int]] = {kind: number for number, kind in enumerate(EventType, start=1)}

TERMINAL: Final = frozenset(
    {
        EventType.RUN_COMPLETE,
        EventType.RUN_ERROR,
        EventType.RUN_CANCELLED,
        EventType.RUN_CONTINUED,
    }
)

# What clients and other runs may add to a journal they do not own.
EXTERNAL: Final = frozenset(
    {
        EventType.RUN_PAUSED,
        EventType.RUN_RESUMED,
        EventType.RUN_CANCEL_REQUESTED,
        EventType.SIGNAL_RECEIVED,
        EventType.INTERRUPT_ANSWERED,
        EventType.UPDATE_REQUESTED,
        EventType.CHILD_DONE,
        EventType.CHILD_ERROR,
    }
)

STEP_OUTCOMES: Final = frozenset({EventType.STEP_DONE, EventType.STEP_ERROR})

# The fields an event must carry, and the type of each. More fields may stand beside them: a reader
# ignores what it does not know, so that a newer minor version can add to an event.
REQUIRED: Final[dict[EventType, dict[str, type | tuple[type, ...]]]] = {
    EventType.RUN_CREATED: {"kind": str, "version": str},
    EventType.RUN_CLAIMED: {"owner": str},
    EventType.RUN_REQUEUED: {"reason": str},
    EventType.RUN_PAUSED: {},
    EventType.RUN_RESUMED: {},
    EventType.RUN_CANCEL_REQUESTED: {},
    EventType.RUN_COMPLETE: {},
    EventType.RUN_ERROR: {"code": str, "failure": dict},
    EventType.RUN_CANCELLED: {},
    EventType.RUN_CONTINUED: {"run_id": str},
    EventType.STEP_STARTED: {"key": str},
    EventType.STEP_DONE: {"key": str},
    EventType.STEP_ERROR: {"key": str, "failure": dict},
    EventType.STEP_RETRYING: {"key": str, "attempt": int, "due": (int, float)},
    EventType.TIMER_SET: {"key": str, "due": (int, float)},
    EventType.TIMER_FIRED: {"key": str},
    EventType.SIGNAL_RECEIVED: {"name": str},
    EventType.INTERRUPT_OPENED: {"key": str, "id": str},
    EventType.INTERRUPT_ANSWERED: {"id": str},
    EventType.INTERRUPT_CLOSED: {"id": str, "reason": str},
    EventType.CHILD_STARTED: {"key": str, "name": str, "run_id": str},
    EventType.CHILD_DONE: {"key": str},
    EventType.CHILD_ERROR: {"key": str, "failure": dict},
    EventType.UPDATE_HANDLED: {"id": str},
    EventType.UPDATE_REJECTED: {"id": str, "failure": dict},
    EventType.GRAPH_CHECKPOINT: {"checkpoint": str},
    EventType.UPDATE_REQUESTED: {"id": str, "name": str},
}


@dataclass(frozen=True, slots=True)
class Payload:
    """One user value, encoded: the codec's name (``json/1``, ``graph/1``) and its bytes."""

    codec: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of a run's journal.

    ``seq`` counts from 1 (0 while the event is only proposed), ``at`` is seconds since the epoch,
    ``data`` the event's own fields as plain JSON, ``payload`` the user's value where it has one.
    """

    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: Payload | None = None
    at: float = 0.0
    seq: int = 0

    def stamped(self, at: float) -> Event:
        """Return this event with a time, unless it has one."""
        return self if self.at else Event(self.type, self.data, self.payload, at, self.seq)


def check_fields(event: Event) -> None:
    """Raise JournalError when an event lacks a field it must carry, or carries a wrong type."""
    for name, expected in REQUIRED[event.type].items():
        value = event.data.get(name)
        if not isinstance(value, expected):
            raise JournalError(
                f"event {event.type} at seq {event.seq} has {name}={value!r}, "
                f"which is not {expected!r}",
                hint="The journal is damaged or foreign; export it and start a new run",
            )
