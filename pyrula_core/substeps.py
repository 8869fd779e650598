"""Sub-steps inside a step that somebody else schedules: LangGraph's nodes, above all.

Owns the records below one structural key. What was recorded is served when the node runs again,
whether after a crash, a retry or an answer. Callable from any thread, sync and async; must never
schedule anything itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from typing import Any, Protocol

from pyrula_core.attempt import Attempt
from pyrula_core.clock import SystemEntropy
from pyrula_core.events import STEP_OUTCOMES, Event, EventType
from pyrula_core.fingerprint import fingerprint
from pyrula_core.replay import Request, ScopeNames
from pyrula_core.replay import differs as differing
from pyrula_core.steps import (
    OnUnknown,
    StepCall,
    failed,
    outcome_of,
    run_attempts,
    unknown_outcome,
)

__all__ = ["RUN", "DurableCalls", "NodeRun", "SubstepRecords"]


class DurableCalls(Protocol):
    """What code inside a run can ask of it, whatever kind of run it is."""

    run_id: str

    @property
    def idempotency_key(self) -> str:
        """The key to hand to the outside world."""
        ...

    def step(
        self, name: str, fn: Callable[..., Any], *args: Any, **options: Any
    ) -> Coroutine[Any, Any, Any]:
        """Do and record a step."""
        ...

    def once(
        self, name: str, fn: Callable[..., Any], *args: Any, **options: Any
    ) -> Coroutine[Any, Any, Any]:
        """Do and record a step at most once."""
        ...


RUN: ContextVar[DurableCalls | None] = ContextVar("pyrula_run", default=None)
"""The run that the calling code belongs to; set by the engine and by the adapter."""

INSIDE: ContextVar[str | None] = ContextVar("pyrula_substep", default=None)


class SubstepRecords:
    """The sub-steps of one run that are recorded, and those that were only begun."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.done: dict[str, Event] = {}
        self.begun: dict[str, Event] = {}
        for event in events:
            if event.type in STEP_OUTCOMES and "input" in event.data:
                self.done[event.data["key"]] = event
            elif event.type is EventType.STEP_STARTED:
                self.begun[event.data["key"]] = event


class NodeRun:
    """The durable calls of one attempt at a node.

    ``key`` is the node's structural key, ``held`` the sub-step failures the node was shown and
    that are written with whatever the node records next.
    """

    def __init__(
        self, attempt: Attempt, records: SubstepRecords, *, key: str, origin: str, number: int
    ) -> None:
        self.name = attempt.key.name
        self.run_id = attempt.key.run_id
        self.attempt = number
        self.key = key
        self.held: list[Event] = []
        self._attempt = attempt
        self._records = records
        self._origin = origin
        self._names = ScopeNames().inside(key)

    @property
    def idempotency_key(self) -> str:
        """The node's key, or the sub-step's inside one: the same on every attempt and pass."""
        return f"{self.name}/{self._origin}/{INSIDE.get() or self.key}"

    @property
    def is_replaying(self) -> bool:
        """Always False: what stands before a recorded sub-step runs again, for real."""
        return False

    async def step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        retry: object = None,
        timeout: float | None = None,
        on_unknown: OnUnknown = "retry",
        **kwargs: Any,
    ) -> Any:
        """Call ``fn`` and record its outcome below the node's key; see ``Context.step``."""
        return await self._do(
            StepCall.checked(
                name,
                fn,
                args,
                kwargs,
                retry=retry,
                timeout=timeout,
                on_unknown=on_unknown,
                once=False,
            )
        )

    async def once(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        retry: object = None,
        timeout: float | None = None,
        on_unknown: OnUnknown = "fail",
        **kwargs: Any,
    ) -> Any:
        """As ``step``, at most once; see ``Context.once``."""
        return await self._do(
            StepCall.checked(
                name,
                fn,
                args,
                kwargs,
                retry=retry,
                timeout=timeout,
                on_unknown=on_unknown,
                once=True,
            )
        )

    async def _do(self, call: StepCall) -> Any:
        digest = fingerprint(call.args, call.kwargs)
        request = call.request(self._names.key(call.name), digest)
        recorded = self._records.done.get(request.key)
        if recorded is not None:
            if recorded.data["input"] != request.digest:
                shape = recorded.data.get("shape", "")
                text = f"step {request.key!r} called with ({shape})"
                raise differing(request, text, recorded.seq)
            return outcome_of(recorded)
        self._attempt.check_held()
        token = INSIDE.set(request.key)
        try:
            if call.announced:
                await self._announce(call, request)
            event = await run_attempts(
                call,
                entropy=SystemEntropy(),
                boundary=self._attempt.check_held,
                request=request,
            )
        except Exception as error:  # noqa: BLE001 (the step's outcome, whatever it is)
            event, seen = failed(request, error)
            self._records.done[request.key] = event
            self.held.append(event)
            raise seen from seen.__cause__
        finally:
            INSIDE.reset(token)
        await self._write(event)
        self._records.done[request.key] = event
        return outcome_of(event)

    async def _announce(self, call: StepCall, request: Request) -> None:
        if request.key in self._records.begun and call.on_unknown != "retry":
            raise unknown_outcome(request)
        fields = {"key": request.key, "input": request.digest}
        event = Event(EventType.STEP_STARTED, fields)
        await self._write(event)
        self._records.begun[request.key] = event

    async def _write(self, event: Event) -> None:
        held, self.held = self.held, []
        future = self._attempt.submit([*held, event])
        if not future.done():
            await asyncio.wrap_future(future)
        future.result()

    def announce(self) -> None:
        """Record, durably, that the node itself is about to run."""
        event = Event(EventType.STEP_STARTED, {"key": self.key})
        self._attempt.submit([event]).result()
        self._records.begun[self.key] = event

    def drop_failures(self) -> None:
        """Forget failures that ended the attempt: the next one runs those sub-steps again."""
        for event in self.held:
            self._records.done.pop(event.data["key"], None)
        self.held = []
