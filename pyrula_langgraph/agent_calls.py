"""The durable half of a wrapped graph: runs started, awaited, answered and steered by id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from pyrula_core import Client, RetryRefusedError, RunOutcome
from pyrula_core.model import RunKey, RunStatus, derived_run_id
from pyrula_core.ports import RunPage
from pyrula_langgraph.admission import Admission
from pyrula_langgraph.executor import GraphExecutor
from pyrula_langgraph.saver import JournalSaver

__all__ = ["AgentCalls", "call_config"]


class AgentCalls:
    """Calls by run id; any process that wraps the same graph under the same name can make them."""

    name: str
    client: Client
    saver: JournalSaver
    _executor: GraphExecutor
    _admission: Admission

    async def start(
        self,
        input: Any,
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> str:
        """Record a run and return its id; whoever wraps the same graph can drive it.

        Raises ThreadBusy, RunConflictError (same run id, other input), ResultNotSerializable.
        """
        key = await self._admission.start(
            input,
            thread=thread_id,
            run_id=run_id,
            config=dict(config or {}),
            options={"context": context},
            idempotency_key=idempotency_key,
        )
        return key.run_id

    async def run_and_await(
        self,
        input: Any,
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        drive: bool = True,
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> RunOutcome:
        """Run the graph durably and return where it comes to; attach when ``run_id`` exists.

        The outcome's status is ``complete`` (with ``output``), ``interrupted`` (with
        ``interrupts``) or ``paused``. Raises DurableInvocationError with the run's code and, where
        it was raised in this process, the original exception as ``__cause__``.
        """
        started = await self.start(
            input,
            thread_id=thread_id,
            run_id=run_id,
            idempotency_key=idempotency_key,
            config=config,
            context=context,
        )
        if config is not None:
            self._executor.configs[started] = call_config(config, config)
        return await self.client.result(self.name, started, timeout=timeout, drive=drive)

    async def answer(
        self,
        run_id: str,
        answers: Mapping[str, Any],
        *,
        timeout: float | None = None,
        drive: bool = True,
    ) -> RunOutcome:
        """Record answers by interrupt id, drive the run on, and return where it comes to.

        Raises InterruptNotFoundError, InterruptConflictError, InvalidAnswerError, and what
        ``run_and_await`` raises. An answer is kept once it is recorded, whatever happens next.
        """
        if not isinstance(answers, Mapping):
            raise TypeError(
                f"answers={answers!r} must map interrupt ids to values: "
                "bot.answer(run_id, {out.interrupts[0].id: value})"
            )
        for interrupt_id, value in answers.items():
            await self.client.answer(self.name, run_id, interrupt_id, value)
        return await self.client.result(self.name, run_id, timeout=timeout, drive=drive)

    async def pause(self, run_id: str, *, reason: str = "") -> None:
        """Ask a run to stop before its next node."""
        await self.client.pause(self.name, run_id, reason=reason)

    async def resume(self, run_id: str, *, reason: str = "") -> None:
        """Let a paused run go on; await it with ``run_and_await`` or ``client.result``."""
        await self.client.resume(self.name, run_id, reason=reason)

    async def cancel(self, run_id: str, *, reason: str = "") -> None:
        """Ask a run to end; no node starts after it."""
        await self.client.cancel(self.name, run_id, reason=reason)

    async def retry(
        self, run_id: str, *, timeout: float | None = None, drive: bool = True
    ) -> RunOutcome:
        """Go on from the node in which ``run_id`` failed, as a new run; return its outcome.

        The outcome's ``run_id`` is the new run's. Sub-steps that were recorded do not run again,
        and idempotency keys stay the failed run's. ``client.retry`` only starts the new run.

        Raises what ``run_and_await`` raises; RetryRefusedError with code ``retry_cancelled``,
        ``retry_not_failed``, or ``retry_stale`` when the thread has moved on since; ThreadBusy when
        another run holds the thread.
        """
        row = await self.client.head(RunKey(self.name, run_id))
        saved = await self.saver.aget_tuple({"configurable": {"thread_id": row.partition}})
        if saved is not None and saved.metadata.get("run_id") != run_id and row.error_code:
            raise RetryRefusedError(
                f"thread {row.partition!r} has moved on since run {run_id!r} failed",
                hint="Send a new input instead",
                code="retry_stale",
            )
        await self._admission.make_room(row.partition, derived_run_id(run_id, ":r"), None)
        new = await self.client.retry(self.name, run_id)
        return await self.client.result(self.name, new, timeout=timeout, drive=drive)

    async def runs(
        self,
        status: RunStatus | str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """Return a page of this agent's runs, newest first."""
        return await self.client.list(self.name, status, limit, cursor)


def call_config(full: RunnableConfig, given: RunnableConfig | None) -> dict[str, Any]:
    """Return what a call's config adds in this process: callbacks, tags, all of configurable."""
    config = dict(full)
    if not (given or {}).get("recursion_limit"):
        config.pop("recursion_limit", None)
    return config
