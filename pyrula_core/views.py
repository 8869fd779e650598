"""Turns rows and journals into what callers are shown: views, outcomes and errors.

Must never do IO. User values are decoded here only when the caller asked for them.
"""

from __future__ import annotations

from typing import Any

from pyrula_core.errors import (
    DurableInvocationCancelled,
    DurableInvocationError,
    PyrulaError,
)
from pyrula_core.events import Event, EventType, Payload
from pyrula_core.machine import Question, RunState
from pyrula_core.model import (
    InterruptView,
    RunErrorView,
    RunOutcome,
    RunRow,
    RunStatus,
    RunView,
)
from pyrula_core.values import ValueCodec

__all__ = ["error_view", "interrupt_view", "invocation_error", "outcome_view", "run_view"]


def shown(payload: Payload | None, codec: ValueCodec) -> Any:
    """Return a payload's value, or a note of what it is where this process cannot read it."""
    if payload is None:
        return None
    try:
        return codec.decode(payload)
    except PyrulaError as error:
        return {"unreadable": payload.codec, "bytes": len(payload.body), "why": error.code}


def interrupt_view(question: Question, codec: ValueCodec) -> InterruptView:
    """Return a question as callers see it."""
    return InterruptView(
        id=question.id,
        value=shown(question.asked, codec),
        node=question.fields.get("node"),
        response_schema=question.fields.get("response_schema"),
        opened_at=question.opened_at,
    )


def error_view(ended: Event | None) -> RunErrorView | None:
    """Return why a run failed, None when it did not."""
    if ended is None or ended.type is not EventType.RUN_ERROR:
        return None
    failure = ended.data["failure"]
    return RunErrorView(
        code=ended.data["code"],
        message=str(failure.get("message", "")),
        error_type=str(failure.get("type", failure.get("type_path", ""))),
        user_code=ended.data.get("user_code"),
        detail=dict(ended.data.get("detail") or {}),
        traceback=failure.get("traceback"),
    )


def run_view(row: RunRow, state: RunState, codec: ValueCodec) -> RunView:
    """Return what ``describe`` tells of a run."""
    ended = state.ended
    continued = ended is not None and ended.type is EventType.RUN_CONTINUED
    return RunView(
        name=row.key.name,
        run_id=row.key.run_id,
        kind=row.kind,
        version=row.version,
        status=row.shown_status,
        created_at=row.created_at,
        updated_at=row.updated_at,
        attempts=state.attempts,
        steps=state.steps,
        seq=state.seq,
        thread=row.partition if row.partition != row.key.run_id else None,
        error=error_view(ended),
        interrupts=tuple(interrupt_view(question, codec) for question in state.open_questions),
        parent=row.parent,
        continued_to=ended.data["run_id"] if continued and ended is not None else None,
        owner=row.owner,
        controls=row.controls,
    )


def outcome_view(row: RunRow, state: RunState, codec: ValueCodec, output: ValueCodec) -> RunOutcome:
    """Return where a run has come to; raises what ``invocation_error`` says when it failed."""
    run_id = row.key.run_id
    if state.ended is None:
        questions = state.open_questions if row.shown_status is RunStatus.INTERRUPTED else []
        views = tuple(interrupt_view(question, codec) for question in questions)
        return RunOutcome(str(row.shown_status), run_id, interrupts=views)
    if state.ended.type is EventType.RUN_COMPLETE:
        payload = state.ended.payload
        value = None if payload is None else output.decode(payload)
        return RunOutcome(str(RunStatus.COMPLETE), run_id, value)
    raise invocation_error(row, state.ended)


def invocation_error(row: RunRow, ended: Event) -> DurableInvocationError:
    """Return the error for a run that ended without a result."""
    name, run_id = row.key.name, row.key.run_id
    if ended.type is EventType.RUN_CANCELLED:
        return DurableInvocationCancelled(
            f"run {row.key} was cancelled", name=name, run_id=run_id, code="cancelled"
        )
    view = error_view(ended)
    if view is None:
        return DurableInvocationError(f"run {row.key} ended as {ended.type}", run_id=run_id)
    what = f"{view.error_type.rpartition(':')[2]}: {view.message}" if view.error_type else ""
    return DurableInvocationError(
        f"run {row.key} failed with code {view.code!r} ({what})",
        code=view.code,
        user_code=view.user_code,
        name=name,
        run_id=run_id,
        detail=view.detail,
        hint=f"See its journal with 'pyrula runs show {run_id}'; once the cause is mended, go on "
        f"with client.retry({name!r}, {run_id!r}), or bot.retry({run_id!r}) for a wrapped graph",
    )
