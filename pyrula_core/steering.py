"""What a caller may ask of a run that goes on: signals, answers, pause, resume, cancel.

Owns the rules of who may ask what, and when. Must never write to a journal but by ``Post``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrula_core.codec import encode
from pyrula_core.engine import Engine
from pyrula_core.errors import (
    InterruptConflictError,
    InterruptNotFoundError,
    RunFinishedError,
    RunNotFoundError,
    RunNotWaitingError,
)
from pyrula_core.events import Event, EventType
from pyrula_core.history import read_history
from pyrula_core.machine import RunState, fold
from pyrula_core.model import RunKey, RunRow, RunStatus
from pyrula_core.ports import Claimed, Duplicate, Ended, Head, Missing, Post
from pyrula_core.schema import check_answer
from pyrula_core.values import JSON_CODEC, ValueCodec

__all__ = ["Steering"]


class Steering:
    """The part of a Client that adds to the journals of live runs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = engine.store
        self.registry = engine.registry
        self.clock = engine.clock
        self.entropy = engine.entropy

    async def head(self, key: RunKey) -> RunRow:
        """Return a run's row; raises RunNotFoundError."""
        row = await self.store.call(Head(key))
        if row is None:
            raise RunNotFoundError(
                f"there is no run {key} in {self.store.url}",
                hint="Check name, run id and store; 'pyrula runs list' shows what is there",
            )
        return row

    def codecs_of(self, row: RunRow) -> tuple[ValueCodec, ValueCodec]:
        """Return the codecs of a run's values and of its output, as far as they are known here."""
        definition = self.registry.find(row.key.name, row.version)
        if definition is None:
            return JSON_CODEC, JSON_CODEC
        return definition.input_codec, definition.output_codec

    async def signal(
        self, name: str, run_id: str, signal: str, value: Any = None, *, dedupe: str | None = None
    ) -> None:
        """Send a signal; the same ``dedupe`` id sent again changes nothing.

        Raises RunNotFoundError, RunFinishedError, ResultNotSerializable.
        """
        event = Event(EventType.SIGNAL_RECEIVED, {"name": signal}, JSON_CODEC.encode(value))
        guard = None if dedupe is None else f"signal:{dedupe}"
        await self.post(RunKey(name, run_id), [event], wake=True, guard=guard)

    async def pause(self, name: str, run_id: str, *, reason: str = "") -> None:
        """Ask a run to stop at its next durable boundary and stay until it is resumed."""
        event = Event(EventType.RUN_PAUSED, {"reason": reason})
        await self.post(RunKey(name, run_id), [event], pause=True)

    async def resume(self, name: str, run_id: str, *, reason: str = "") -> None:
        """Let a paused run go on; raises RunNotWaitingError when it is not paused."""
        key = RunKey(name, run_id)
        if not (await self.head(key)).controls.pause:
            await self._refuse_ended(key)
            raise RunNotWaitingError(
                f"run {key} is not paused", hint="To answer a question, use client.answer"
            )
        event = Event(EventType.RUN_RESUMED, {"reason": reason})
        await self.post(key, [event], wake=True, pause=False)

    async def cancel(self, name: str, run_id: str, *, reason: str = "") -> None:
        """Ask a run to end; no new step starts after it. A run that nobody holds ends at once.

        Cancelling a cancelled run changes nothing; raises RunFinishedError for one that ended
        otherwise.
        """
        key = RunKey(name, run_id)
        if (await self.head(key)).status is RunStatus.CANCELLED:
            return
        event = Event(EventType.RUN_CANCEL_REQUESTED, {"reason": reason})
        await self.post(key, [event], wake=True, cancel=True)
        claimed = await self.engine.claim(key)
        if isinstance(claimed, Claimed):
            await self.engine.drive(claimed.row)

    async def _refuse_ended(self, key: RunKey) -> None:
        row = await self.head(key)
        if row.status.ended:
            raise finished(row)

    async def post(self, key: RunKey, events: Sequence[Event], **options: Any) -> bool:
        """Add events from outside to a live run; False when ``guard`` says it was done before.

        Raises RunNotFoundError or RunFinishedError.
        """
        now = self.clock.time()
        bodies = tuple(encode(event.stamped(now)) for event in events)
        answer = await self.store.call(Post(key, bodies, **options))
        if isinstance(answer, Missing):
            await self.head(key)
        if isinstance(answer, Ended):
            raise finished(answer.row)
        return not isinstance(answer, Duplicate)

    async def answer(self, name: str, run_id: str, interrupt_id: str, value: Any) -> None:
        """Answer an open question; the run goes on with it when it is driven next.

        The same answer again changes nothing. Raises InterruptNotFoundError for a question that
        was never asked, InterruptConflictError for another answer than the recorded one,
        InvalidAnswerError when the value does not fit the question's schema, RunFinishedError.
        """
        key = RunKey(name, run_id)
        row = await self.head(key)
        codec = self.codecs_of(row)[0]
        state = fold(await read_history(self.store, key))
        question = state.questions.get(interrupt_id)
        if question is None:
            raise unknown_question(key, interrupt_id, state)
        payload = codec.encode(value)
        if question.answered:
            if question.answer == payload:
                return
            raise answered_otherwise(key, interrupt_id)
        if question.closed or row.status.ended:
            raise finished(row)
        check_answer(value, question.fields.get("response_schema"), interrupt_id)
        event = Event(EventType.INTERRUPT_ANSWERED, {"id": interrupt_id}, payload)
        guard = f"answer:{interrupt_id}:{question.opened_at!r}"
        if not await self.post(key, [event], wake=True, guard=guard):
            await self.answer(name, run_id, interrupt_id, value)


def finished(row: RunRow) -> RunFinishedError:
    """Return the error for what a finished run can no longer take."""
    return RunFinishedError(
        f"run {row.key} has ended as {row.status}",
        hint="Retry it with client.retry" if row.error_code else "Start a new run",
    )


def unknown_question(key: RunKey, interrupt_id: str, state: RunState) -> InterruptNotFoundError:
    """Return the error that lists the questions that are open instead."""
    listed = ", ".join(repr(question.id) for question in state.open_questions) or "none"
    return InterruptNotFoundError(
        f"run {key} never asked a question with id {interrupt_id!r} (open: {listed})",
        hint="Take the id from the outcome's interrupts or from client.describe",
    )


def answered_otherwise(key: RunKey, interrupt_id: str) -> InterruptConflictError:
    """Return the error for a second, different answer."""
    return InterruptConflictError(
        f"question {interrupt_id!r} of run {key} has been answered with another value",
        hint="The first answer counts; see client.history for it",
    )
