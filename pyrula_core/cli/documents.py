"""What ``--json`` prints of runs: stable documents, to which keys may be added.

Times are seconds since the epoch, on the store's clock. Absent values are null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyrula_core.cli.notes import fields_of, key_of, note_of
from pyrula_core.cli.owner import owner_alive
from pyrula_core.cli.payloads import payload_document, question_document
from pyrula_core.events import Event, EventType
from pyrula_core.machine import Question, RunState
from pyrula_core.model import Capture, RunRow

if TYPE_CHECKING:
    from pyrula_core.values import ValueCodec

__all__ = ["error_of", "event_document", "requeues", "row_document", "run_document"]


def row_document(row: RunRow) -> dict[str, Any]:
    """Return what is told of a run without reading its journal.

    ``status`` is the shown one (``paused`` included), ``seq`` the number of its last event,
    ``thread`` null for a run that is its own thread. ``owner_alive`` is false when the owner was a
    process of this machine that has ended, true when it lives, null where nobody can tell from here
    or nobody owns the run.
    """
    return {
        "name": row.key.name,
        "run_id": row.key.run_id,
        "kind": str(row.kind),
        "status": str(row.shown_status),
        "version": row.version,
        "seq": row.seq,
        "thread": thread_of(row),
        "parent": row.parent,
        "owner": row.owner,
        "owner_alive": owner_alive(row.owner),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "wake_at": row.wake_at,
        "pause_requested": row.controls.pause,
        "cancel_requested": row.controls.cancel,
        "error_code": row.error_code,
        "user_code": row.user_code,
    }


def run_document(
    row: RunRow,
    state: RunState,
    events: Sequence[Event],
    capture: Capture,
    codec: ValueCodec | None = None,
) -> dict[str, Any]:
    """Return what a run's journal tells of it, beside its row.

    ``attempts`` is how often it was claimed, ``requeues`` how often it went back, by reason.
    ``codec`` reads values that are not plain JSON.
    """
    questions = [question_of(question, capture, codec) for question in state.open_questions]
    return row_document(row) | {
        "seq": state.seq,
        "attempts": state.attempts,
        "steps": state.steps,
        "requeues": requeues(events),
        "continued_to": continued_to(state),
        "error": error_of(state, capture),
        "interrupts": questions,
    }


def thread_of(row: RunRow) -> str | None:
    """Return the thread a run belongs to, None where it is its own."""
    return row.partition if row.partition != row.key.run_id else None


def continued_to(state: RunState) -> str | None:
    """Return the run that goes on where this one ended."""
    ended = state.ended
    found = ended is not None and ended.type is EventType.RUN_CONTINUED
    return ended.data["run_id"] if ended is not None and found else None


def requeues(events: Sequence[Event]) -> dict[str, int]:
    """Return how often a run was requeued, by reason, over its whole life."""
    reasons = (event.data["reason"] for event in events if event.type is EventType.RUN_REQUEUED)
    return dict(Counter(reasons))


def question_of(question: Question, capture: Capture, codec: ValueCodec | None) -> dict[str, Any]:
    """Return an open question: its id answers it."""
    return {
        "id": question.id,
        "node": question.fields.get("node"),
        "key": question.key,
        "opened_at": question.opened_at,
        "response_schema": question.fields.get("response_schema"),
        "question": question_document(question.asked, capture, codec),
    }


def error_of(state: RunState, capture: Capture) -> dict[str, Any] | None:
    """Return why a run failed; the codes are shown at every capture level."""
    # Imported here: listings do not need pydantic, which comes along and is slow to import.
    from pyrula_core.views import error_view

    view = error_view(state.ended)
    if view is None:
        return None
    error = asdict(view)
    if capture is not Capture.FULL:
        error["traceback"] = None
    if capture in (Capture.NONE, Capture.SHAPE):
        error |= {"message": "", "detail": {}}
    return error


def event_document(
    event: Event, capture: Capture, codec: ValueCodec | None = None
) -> dict[str, Any]:
    """Return one event of a journal; ``codec`` reads what is not plain JSON."""
    return {
        "seq": event.seq,
        "at": event.at,
        "type": str(event.type),
        "key": key_of(event),
        "note": note_of(event, capture, codec),
        "fields": fields_of(event, capture),
        "value": payload_document(event.payload, capture, codec),
    }
