"""What an attempt's ending looks like in the journal and in the run's row.

Owns the last append of an attempt, and the endings that the engine itself decides on. Must never
run user code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pyrula_core.attempt import Ack, Attempt
from pyrula_core.endings import (
    Cancelled,
    Completed,
    Continued,
    Ending,
    Failed,
    StoodDown,
    Waiting,
)
from pyrula_core.errors import PyrulaError
from pyrula_core.events import Event, EventType
from pyrula_core.failure import capture
from pyrula_core.model import RunKey, RunRow, RunStatus
from pyrula_core.ports import Patch, Record, RecordRange

__all__ = ["owner_budget_spent", "record", "store_budget_spent", "stranded", "unreadable"]


def owner_budget_spent(key: RunKey, lost: int) -> Failed:
    """Return the ending of a run whose owners keep dying without getting anywhere."""
    error = PyrulaError(
        f"run {key} lost its owner {lost} times without recording a step in between",
        hint="Its code seems to kill the process; look at the step that follows the last recorded",
        code="max_retries",
    )
    return Failed(error.code, capture(error).to_json(), None, {"owner_gone": lost}, (), error)


def store_budget_spent(key: RunKey, outages: int) -> Failed:
    """Return the ending of a run that lost its store again and again without getting anywhere."""
    error = PyrulaError(
        f"run {key} lost its store {outages} times without recording a step in between",
        hint="See 'pyrula doctor' for the store, then start the run anew",
        code="store_unavailable",
    )
    return Failed(error.code, capture(error).to_json(), None, {"attempts": outages}, (), error)


def stranded(row: RunRow) -> Failed:
    """Return the ending of a run whose version no worker has had for too long."""
    error = PyrulaError(
        f"no worker has version {row.version!r} of {row.key.name!r}, which run {row.key} waits for",
        hint="Start a worker that registers that version, or start the run anew on a current one",
        code="no_compatible_worker",
    )
    detail = {"name": row.key.name, "version": row.version}
    return Failed(error.code, capture(error).to_json(), None, detail, (), error)


def unreadable(error: PyrulaError, tries: int) -> Failed:
    """Return the ending of a run whose journal cannot be replayed, however often it is tried."""
    return Failed(error.code, capture(error).to_json(), None, {"tries": tries}, (), error)


async def record(attempt: Attempt, ending: Ending) -> Ack:
    """Append a run's last events, giving way to what others added in the meantime."""
    event, patch, records = closing(ending)
    before: Sequence[Event] = getattr(ending, "events", ())
    events = [*before, event] if event is not None else list(before)
    future = attempt.submit(events, patch=patch, records=records, unless_foreign=True)
    return future.result() if future.done() else await asyncio.wrap_future(future)


def closing(
    ending: Ending,
) -> tuple[Event | None, Patch, Sequence[Record | RecordRange]]:
    """Return the event, the row's change and the records that an ending stands for."""
    match ending:
        case Completed(output, _, records):
            patch = Patch(status=RunStatus.COMPLETE, release=True)
            return Event(EventType.RUN_COMPLETE, {}, output), patch, records
        case Failed(code, failure, user_code, detail):
            fields: dict[str, Any] = {"code": code, "failure": failure, "detail": detail}
            if user_code is not None:
                fields["user_code"] = user_code
            patch = Patch(RunStatus.ERROR, release=True, error_code=code, user_code=user_code)
            return Event(EventType.RUN_ERROR, fields), patch, ()
        case Cancelled(_, records):
            patch = Patch(RunStatus.CANCELLED, release=True, error_code="cancelled")
            return Event(EventType.RUN_CANCELLED), patch, records
        case Continued(_, _, run_id):
            patch = Patch(RunStatus.CONTINUED, release=True)
            return Event(EventType.RUN_CONTINUED, {"run_id": run_id}), patch, ()
        case Waiting():
            return None, Patch(status=RunStatus.QUEUED, release=True), ()
        case StoodDown():
            raise AssertionError("an attempt that stood down records nothing")
