"""What a body can wait for: time, signals, people and other runs.

Owns the translation of waits into requests. Must never touch a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pyrula_core.children import Children
from pyrula_core.control import ContinueAsNew
from pyrula_core.errors import ChildWorkflowError
from pyrula_core.events import Event, EventType
from pyrula_core.fingerprint import fingerprint, shape
from pyrula_core.model import RunKey, check_run_id, derived_run_id
from pyrula_core.replay import Request
from pyrula_core.scopes import interrupt_id
from pyrula_core.step_calls import StepCalls
from pyrula_core.values import JSON_CODEC
from pyrula_core.waits import Wait

__all__ = ["ParentClose", "WaitCalls"]

ParentClose = Literal["cancel", "abandon", "wait"]


class WaitCalls(StepCalls):
    """Sleeps, signals, interrupts, child runs and continuation."""

    async def sleep(self, seconds: float | timedelta, *, name: str = "sleep") -> None:
        """Wait durably: a run that sleeps holds no worker, and wakes up after any restart."""
        length = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        key = self._waiting_scope(name).names.key(name)
        request = Request(key, "timer", None, f"{length} s")
        begun = self._delivery.recording.intents.get(key)
        if await self._delivery.serve(request) is None:
            await self._delivery.wait(self._timer(key, length, begun))

    def _timer(self, key: str, seconds: float, begun: Event | None) -> Wait:
        due = self._clock.time() + max(seconds, 0.0) if begun is None else begun.data["due"]
        intent = Event(EventType.TIMER_SET, {"key": key, "due": due}) if begun is None else None
        return Wait(key, "timer", intent, due, Event(EventType.TIMER_FIRED, {"key": key}))

    async def wait_for_signal(self, name: str, *, timeout: float | None = None) -> Any:
        """Return the payload of the next unread signal of that name.

        Signals are read in the order in which they were recorded, each once. With ``timeout``
        (seconds, durable) raises TimeoutError when none came.
        """
        asked = f"signal:{name}"
        request = Request(self._waiting_scope(asked).names.key(asked), "signal", None, name)
        timers = self._limit(request.key, timeout)
        event = await self._delivery.signal(name, request, *timers)
        if event.type is EventType.TIMER_FIRED:
            raise TimeoutError(f"no signal {name!r} came within {timeout} s")
        return None if event.payload is None else JSON_CODEC.decode(event.payload)

    def _limit(self, key: str, timeout: float | None) -> list[Wait]:
        """Return the timer that limits a wait, none when it has no limit."""
        if timeout is None:
            return []
        timer_key = f"{key}!timeout"
        begun = self._delivery.recording.intents.get(timer_key)
        fired = self._delivery.note(Request(timer_key, "timer"))
        return [
            self._timer(timer_key, timeout, begun) if fired is None else Wait(timer_key, "timer")
        ]

    async def interrupt(
        self,
        value: Any = None,
        *,
        name: str = "interrupt",
        response_schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        default: Any = None,
    ) -> Any:
        """Put a question to a person and return the answer, whenever it comes.

        ``value`` is what is asked (JSON); ``response_schema`` a JSON schema that answers must fit.
        The question's id is stable; it is answered with ``client.answer``. With ``timeout``
        (seconds, durable) the question is closed when nobody answered, and ``default`` returned.
        """
        asked = JSON_CODEC.encode(value)
        digest = hashlib.blake2b(asked.body, digest_size=8).hexdigest()
        key = self._waiting_scope(name, digest).names.key(name)
        self._delivery.note(Request(key, "interrupt", digest, name))
        timers = self._limit(key, timeout)
        question = self._question(key, digest, response_schema, value)
        event = await self._delivery.wait(question, *timers)
        if event.type is EventType.TIMER_FIRED:
            return await self._expired(key, default)
        return None if event.payload is None else JSON_CODEC.decode(event.payload)

    async def _expired(self, key: str, default: Any) -> Any:
        """Close a question that nobody answered in time."""
        if self._delivery.live:
            fields = {"id": interrupt_id(self._key, key), "reason": "expired"}
            closed = Event(EventType.INTERRUPT_CLOSED, fields)
            await self._delivery.commit(f"{key}!closed", closed)
        return default

    async def _ask(self, value: Any, key: str) -> Any:
        """Ask about a step: the question hangs below its key, and is served with it."""
        event = self._delivery.recording.substeps.get(key)
        if event is None:
            event = await self._delivery.wait(self._question(key, "", None, value))
        return None if event.payload is None else JSON_CODEC.decode(event.payload)

    def _question(
        self, key: str, digest: str, schema: Mapping[str, Any] | None, value: Any
    ) -> Wait:
        if key in self._delivery.recording.intents:
            return Wait(key, "interrupt")
        question = interrupt_id(self._key, key)
        self._delivery.recording.opened(question, key)
        fields: dict[str, Any] = {"key": key, "id": question, "input": digest}
        if schema is not None:
            fields["response_schema"] = dict(schema)
        opened = Event(EventType.INTERRUPT_OPENED, fields, JSON_CODEC.encode(value))
        return Wait(key, "interrupt", opened)

    # --- other runs -----------------------------------------------------------------------------

    def attach(self, children: Children) -> None:
        """Give this context its way to child runs."""
        self._children = children
        self._joined: dict[str, RunKey] = {}
        self._delivery.local_work = lambda: bool(children.local)

    async def run_child(
        self,
        name: str,
        *args: Any,
        run_id: str | None = None,
        parent_close: ParentClose = "cancel",
    ) -> Any:
        """Run another workflow or agent as a child and return its output.

        ``run_id`` defaults to one derived from this run's. ``parent_close`` says what becomes of a
        child that still runs when this run ends: ``cancel`` it, ``abandon`` it, or ``wait`` for it.

        Raises ChildWorkflowError (``run_id``, ``child_code``, ``user_code``) when the child did not
        complete, NotRegisteredError for a name that this process does not know.
        """
        digest = fingerprint(args, {})
        key = self._waiting_scope(f"child:{name}", digest).names.key(f"child:{name}")
        begun = self._delivery.recording.intents.get(key)
        child = self._child_key(name, run_id, key, begun)
        request = Request(key, "child", digest, shape(args, {}))
        event = await self._delivery.serve(request)
        if event is None:
            event = await self._child_outcome(child, args, request, begun, parent_close)
        return self._child_result(event, child)

    def _child_key(self, name: str, run_id: str | None, key: str, begun: Event | None) -> RunKey:
        if begun is not None:
            return RunKey(begun.data["name"], begun.data["run_id"])
        digest = hashlib.blake2b(key.encode(), digest_size=4).hexdigest()
        return RunKey(name, check_run_id(run_id or derived_run_id(self.run_id, f":{digest}")))

    async def _child_outcome(
        self,
        child: RunKey,
        args: tuple[Any, ...],
        request: Request,
        begun: Event | None,
        parent_close: ParentClose,
    ) -> Event:
        """Start the child, or find it again, and wait for its end."""
        key = request.key
        if begun is None:
            fields: dict[str, Any] = {"key": key, "name": child.name, "run_id": child.run_id}
            fields |= {"policy": parent_close, "input": request.digest, "shape": request.shape}
            await self._delivery.commit(f"{key}!started", Event(EventType.CHILD_STARTED, fields))
        if parent_close == "wait":
            self._joined[key] = child
        await self._children.create(child, args, key=key)
        ended = await self._children.outcome(child, key)
        if ended is not None:
            event = await self._delivery.commit(key, ended)
        else:
            self._children.drive(child)
            event = await self._delivery.wait(Wait(key, "child"))
        self._joined.pop(key, None)
        return event

    async def join_children(self) -> None:
        """Wait for children that are to end before this run does, and that nobody awaited."""
        for key in list(self._joined):
            await self._delivery.wait(Wait(key, "child"))

    def _child_result(self, event: Event, child: RunKey) -> Any:
        if event.type is EventType.CHILD_DONE:
            return None if event.payload is None else self._children.decode(child, event.payload)
        failure = event.data.get("failure") or {}
        raise ChildWorkflowError(
            f"child run {child} ended with code {event.data.get('code')!r}: "
            f"{failure.get('message', '')}",
            run_id=child.run_id,
            child_code=str(event.data.get("code")),
            user_code=event.data.get("user_code"),
        )

    async def continue_as_new(self, *args: Any) -> None:
        """End this run and go on as a new one with ``args`` and a fresh journal."""
        raise ContinueAsNew(JSON_CODEC.encode(list(args)))
