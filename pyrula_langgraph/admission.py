"""Decides what a call on a thread means: a new run, an answer, or going on with the open one.

Owns the rules of ``on_busy``. Must never drive a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final, Literal

from langgraph.types import Command

from pyrula_core import Client, DurableInvocationError, RunConflictError, RunNotWaitingError
from pyrula_core.adapter import Question, fold, is_dead, read_history
from pyrula_core.model import RunKey, RunRow, RunStatus
from pyrula_core.ports import ListRuns
from pyrula_langgraph.errors import GraphUnsupported, ThreadBusy

__all__ = ["Admission", "OnBusy"]

OnBusy = Literal["reject", "interrupt"]

OPEN: Final = frozenset(status for status in RunStatus if not status.ended)

RECORDED_CONFIG: Final = ("recursion_limit", "tags", "run_name")


class Admission:
    """Admits calls on the threads of one wrapped graph.

    ``keep`` names the entries of ``configurable`` that are recorded with a run; the others are
    only known to the process that made the call, since they may hold secrets.
    """

    def __init__(
        self, client: Client, name: str, *, on_busy: OnBusy, keep: frozenset[str] = frozenset()
    ) -> None:
        self.client = client
        self.name = name
        self.on_busy = on_busy
        self.keep = keep

    async def admit(
        self,
        value: Any,
        config: Mapping[str, Any],
        given: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> RunKey:
        """Return the run that a call is about, recorded with its input or its answers.

        ``config`` is the call's full config, ``given`` the part that the caller wrote.

        Raises ThreadBusy when the thread has an open run and the call brings new input,
        RunNotWaitingError for an answer to a thread that asks nothing.
        """
        thread = config.get("configurable", {}).get("thread_id")
        thread = None if thread is None else str(thread)
        open_run = await self.open_run(thread)
        resume = value.resume if isinstance(value, Command) else None
        if resume is not None:
            if open_run is None or open_run.key.name != self.name:
                raise RunNotWaitingError(
                    f"thread {thread!r} has no run that waits for an answer",
                    hint="Start it with an input first; an answer needs an open question",
                )
            await self.answer_open(open_run.key, value)
            return open_run.key
        if value is None and open_run is not None and open_run.key.name == self.name:
            await self.pass_breakpoints(open_run.key)
            await self.client.post(open_run.key, [], wake=True)
            return open_run.key
        run_id = config.get("metadata", {}).get("run_id") or config.get("run_id")
        return await self.start(
            value,
            thread=thread,
            run_id=None if run_id is None else str(run_id),
            config=given,
            options=options,
        )

    async def start(
        self,
        value: Any,
        *,
        thread: str | None,
        run_id: str | None,
        config: Mapping[str, Any],
        options: Mapping[str, Any],
        idempotency_key: str | None = None,
    ) -> RunKey:
        """Record a new run and its input; the same run id and input again is the same run."""
        await self.make_room(thread, run_id, idempotency_key)
        if value is None and thread is not None:
            failed = await self.failed_run(thread)
            if failed is not None:
                return RunKey(self.name, await self.client.retry(self.name, failed))
        recorded = {name: value for name, value in options.items() if value is not None}
        recorded["config"] = self.recorded_config(config)
        try:
            started = await self.client.start(
                self.name,
                value,
                recorded,
                run_id=run_id,
                thread=thread,
                idempotency_key=idempotency_key,
                exclusive=thread is not None,
            )
        except RunConflictError as error:
            row = await self.open_run(thread) if error.code == "thread_busy" else None
            if row is None:
                raise
            raise await self.busy(row, thread) from None
        return RunKey(self.name, started)

    async def failed_run(self, thread: str) -> str | None:
        """Return the last run of a thread when it failed: going on from there is retrying it."""
        page = await self.client.store.call(ListRuns(partition=thread, limit=1))
        if not page.rows or page.rows[0].status is not RunStatus.ERROR:
            return None
        return page.rows[0].key.run_id if page.rows[0].key.name == self.name else None

    def recorded_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a call's config that a restart needs and that holds no secret."""
        recorded = {name: config[name] for name in RECORDED_CONFIG if config.get(name)}
        configurable = config.get("configurable", {})
        names = {"checkpoint_id", "checkpoint_ns", *self.keep}
        kept = {name: configurable[name] for name in sorted(names & configurable.keys())}
        return {**recorded, "configurable": kept} if kept else recorded

    async def open_run(self, thread: str | None) -> RunRow | None:
        """Return the run on a thread that has not ended, the oldest one."""
        if thread is None:
            return None
        page = await self.client.store.call(ListRuns(partition=thread, statuses=OPEN, limit=1000))
        return page.rows[-1] if page.rows else None

    async def make_room(
        self, thread: str | None, run_id: str | None, idempotency_key: str | None
    ) -> None:
        """Apply ``on_busy`` when another run holds the thread."""
        row = await self.open_run(thread)
        if row is None or row.key.run_id == run_id:
            return
        if idempotency_key is not None and row.idempotency_key == idempotency_key:
            return
        if self.on_busy == "interrupt":
            await self.client.cancel(row.key.name, row.key.run_id, reason="new input on its thread")
            with contextlib.suppress(DurableInvocationError):
                await self.client.settle(row.key, until=frozenset())
            return
        raise await self.busy(row, thread)

    async def busy(self, row: RunRow, thread: str | None) -> ThreadBusy:
        """Return the error that says which run holds the thread, and what it waits for."""
        asked = await self.questions(row.key)
        ids = ", ".join(repr(question.id) for question in asked)
        waits = f" and waits for an answer to {ids}" if ids else ""
        if row.status is RunStatus.RUNNING and row.owner is not None and is_dead(row.owner):
            waits = " in a process that has died"
        return ThreadBusy(
            f"thread {thread!r} is held by run {row.key}, which is {row.shown_status}{waits}",
            hint="Go on with it (input None), answer it, cancel it, or use on_busy='interrupt'",
        )

    async def questions(self, key: RunKey) -> list[Question]:
        """Return a run's open questions."""
        return fold(await read_history(self.client.store, key)).open_questions

    async def answer_open(self, key: RunKey, command: Command[Any]) -> None:
        """Record the answers that a ``Command(resume=...)`` brings.

        A single answer needs a single open question; several are answered by id.
        """
        if command.update is not None or command.goto:
            raise GraphUnsupported(
                "Command(resume=...) with update= or goto= is not supported on a durable run",
                hint="Answer first; use update_state for edits",
            )
        asked = await self.questions(key)
        known = {question.id for question in fold_ids(asked)}
        resume = command.resume
        if isinstance(resume, dict) and resume and set(resume) <= known:
            answers = resume
        elif len(asked) == 1:
            answers = {asked[0].id: resume}
        else:
            listed = ", ".join(sorted(known)) or "none"
            raise RunNotWaitingError(
                f"run {key} has {len(asked)} open questions, so an answer must name its interrupt "
                f"id (open: {listed})",
                hint="Resume with Command(resume={id: value})",
            )
        for interrupt_id, value in answers.items():
            await self.client.answer(key.name, key.run_id, interrupt_id, value)

    async def pass_breakpoints(self, key: RunKey) -> None:
        """Let a run go on from the static breakpoint it stands at; a question stays open."""
        for question in await self.questions(key):
            if question.fields.get("breakpoint"):
                await self.client.answer(key.name, key.run_id, question.id, None)


def fold_ids(asked: list[Question]) -> list[Question]:
    """Return the questions that a person answers: a breakpoint is passed, not answered."""
    return [question for question in asked if not question.fields.get("breakpoint")] or asked
