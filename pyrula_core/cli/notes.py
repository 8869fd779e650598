"""Says in a few words what an event of a journal tells.

Owns the table of the fields that are worth showing. A field it does not name is shown at capture
level ``full`` only, so that a newer version's fields cannot leak a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyrula_core.cli.owner import owner_text
from pyrula_core.cli.payloads import payload_text
from pyrula_core.cli.text import clipped, moment, printable
from pyrula_core.events import Event, EventType
from pyrula_core.model import Capture

if TYPE_CHECKING:
    from pyrula_core.values import ValueCodec

__all__ = ["fields_of", "key_of", "note_of"]

message_chars_max: Final = 200

# What events carry beside a key and a value. All of it was written by the engine or by whoever
# steers the run; users' values are payloads, and failures are treated apart.
TELLING: Final[Mapping[EventType, tuple[str, ...]]] = {
    EventType.RUN_CREATED: ("kind", "version", "thread", "continued_from"),
    EventType.RUN_CLAIMED: ("owner",),
    EventType.RUN_REQUEUED: ("reason",),
    EventType.RUN_PAUSED: ("reason",),
    EventType.RUN_RESUMED: ("reason",),
    EventType.RUN_CANCEL_REQUESTED: ("reason",),
    EventType.RUN_ERROR: ("code", "user_code"),
    EventType.RUN_CONTINUED: ("run_id",),
    EventType.STEP_DONE: ("attempts",),
    EventType.STEP_RETRYING: ("attempt", "due"),
    EventType.TIMER_SET: ("due",),
    EventType.SIGNAL_RECEIVED: ("name",),
    EventType.INTERRUPT_OPENED: ("id", "node"),
    EventType.INTERRUPT_ANSWERED: ("id",),
    EventType.INTERRUPT_CLOSED: ("id", "reason"),
    EventType.CHILD_STARTED: ("name", "run_id"),
    EventType.UPDATE_HANDLED: ("id",),
    EventType.UPDATE_REJECTED: ("id",),
    EventType.UPDATE_REQUESTED: ("name", "id"),
    EventType.GRAPH_CHECKPOINT: ("checkpoint", "step"),
}

MESSAGES_SHOWN: Final = frozenset({Capture.REDACTED, Capture.FULL})


def key_of(event: Event) -> str | None:
    """Return the key of the step, timer, question or child an event is about."""
    key = event.data.get("key")
    return key if isinstance(key, str) else None


def fields_of(event: Event, capture: Capture) -> dict[str, Any]:
    """Return an event's own fields that a capture level shows."""
    if capture is Capture.FULL:
        return dict(event.data)
    return {name: event.data[name] for name in telling(event)}


def telling(event: Event) -> list[str]:
    """Return the names of the fields to show that an event has."""
    names = TELLING.get(event.type, ())
    return [name for name in names if event.data.get(name) not in (None, "")]


def note_of(event: Event, capture: Capture, codec: ValueCodec | None = None) -> str:
    """Return an event's fields, failure and value on one line."""
    parts = [noted(name, event.data[name]) for name in telling(event) if worth_a_row(event, name)]
    failure = event.data.get("failure")
    if isinstance(failure, dict):
        parts.append(failure_text(failure, capture))
    if event.payload is not None:
        parts.append(payload_text(event.payload, capture, codec))
    return " ".join(parts)


def worth_a_row(event: Event, name: str) -> bool:
    """Tell whether a field belongs on an event's line: long ids and the usual case do not."""
    value = event.data[name]
    return name != "checkpoint" and not (event.type is EventType.STEP_DONE and value == 1)


def noted(name: str, value: Any) -> str:
    """Return a field as it stands on an event's line."""
    if name == "owner":
        return clipped(printable(owner_text(str(value))), message_chars_max)
    return f"{name}={field_text(name, value)}"


def field_text(name: str, value: Any) -> str:
    """Return a field's value; times as times."""
    if name == "due" and isinstance(value, int | float):
        return moment(value)
    return clipped(printable(str(value)), message_chars_max)


def failure_text(failure: Mapping[str, Any], capture: Capture) -> str:
    """Return an exception's class, and what it said where messages are shown."""
    kind = str(failure.get("type_path", "")).rpartition(":")[2]
    message = str(failure.get("message", "")) if capture in MESSAGES_SHOWN else ""
    return clipped(printable(f"{kind}: {message}" if message else kind), message_chars_max)
