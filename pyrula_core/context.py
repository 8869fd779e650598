"""What a body sees: ``ctx``, and the same durable calls for any function it calls.

Owns scopes (which task is asking, under which key) and the translation of durable calls into
requests. Must never touch a store: everything durable goes through ``Delivery``.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyrula_core.attempt import Attempt
from pyrula_core.control import ContinueAsNew
from pyrula_core.delivery import Delivery
from pyrula_core.events import Event, EventType
from pyrula_core.model import RunKey
from pyrula_core.ports import Entropy
from pyrula_core.replay import Request, ScopeNames
from pyrula_core.steps import (
    OnUnknown,
    StepCall,
    failed,
    outcome_of,
    run_attempts,
    unknown_outcome,
)
from pyrula_core.substeps import RUN
from pyrula_core.values import JSON_CODEC
from pyrula_core.waits import Wait

__all__ = ["Context", "Scope", "current_scope", "interrupt_id"]


@dataclass(slots=True)
class Scope:
    """Where in a run the code stands: its task, the names it has used, the step it is inside."""

    context: Context
    names: ScopeNames
    task: asyncio.Task[Any] | None
    step_key: str | None = None
    attempt: int = 1


SCOPE: ContextVar[Scope | None] = ContextVar("pyrula_scope", default=None)


def current_scope() -> Scope | None:
    """Return the scope of the calling task, None outside of a run.

    A task that was started inside another one gets a scope of its own at its first durable call,
    so that concurrent branches do not share counters.
    """
    scope = SCOPE.get()
    if scope is None:
        return None
    task = running_task()
    if task is None or scope.task is task:
        return scope
    own = Scope(scope.context, scope.names.child(), task, scope.step_key, scope.attempt)
    scope.context.tasks.add(task)
    SCOPE.set(own)
    return own


def running_task() -> asyncio.Task[Any] | None:
    """Return the task of the calling code, None in a thread without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def interrupt_id(run: RunKey, key: str) -> str:
    """Return the id of the question asked under ``key``: 32 hex digits, the same on every pass."""
    text = f"{run.name}\0{run.run_id}\0{key}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Context:
    """Everything a body may ask of the engine.

    ``run_id`` and ``name`` identify the run, ``attempt`` counts its claims from 1, and
    ``is_replaying`` is True while recorded outcomes are being served. ``tasks`` and ``failures``
    are the engine's: the concurrent tasks that made durable calls, and the step failures that the
    body was shown.
    """

    def __init__(
        self, attempt: Attempt, delivery: Delivery, created: Event, *, number: int, entropy: Entropy
    ) -> None:
        self.name = attempt.key.name
        self.run_id = attempt.key.run_id
        self.attempt = number
        self._key = attempt.key
        self._origin = created.data.get("origin", self.run_id)
        self._random_seed = created.data.get("seed", f"{self.run_id}@{created.at!r}")
        self._delivery = delivery
        self._entropy = entropy
        self._clock = attempt.clock
        self.tasks: set[asyncio.Task[Any]] = set()
        self.failures: list[tuple[BaseException, Event]] = []

    def enter(self) -> None:
        """Make the calling task this run's root scope."""
        RUN.set(self)
        SCOPE.set(Scope(self, ScopeNames(), asyncio.current_task()))

    # --- facts ----------------------------------------------------------------------------------

    @property
    def is_replaying(self) -> bool:
        """True while what the body asks for is served from the journal."""
        return not self._delivery.live

    @property
    def idempotency_key(self) -> str:
        """The key to hand to the outside world for the step that is running.

        Stable across attempts, crashes and ``client.retry``; another one after a fork. Outside of
        a step it is the run's own.
        """
        scope = SCOPE.get()
        inside = scope.step_key if scope is not None and scope.context is self else None
        run = f"{self.name}/{self._origin}"
        return run if inside is None else f"{run}/{inside}"

    def now(self) -> datetime:
        """Return the time of the last thing this body was given, in UTC: the same on replay."""
        return datetime.fromtimestamp(self._delivery.now, tz=UTC)

    def random(self) -> float:
        """Return a float in [0, 1) that is the same on replay."""
        return random.Random(self._seed("random")).random()

    def uuid(self) -> uuid.UUID:
        """Return a UUID that is the same on replay and differs from every other."""
        digest = hashlib.blake2b(self._seed("uuid").encode(), digest_size=16).digest()
        return uuid.UUID(bytes=digest, version=4)

    def _seed(self, what: str) -> str:
        return f"{self.name}\0{self._random_seed}\0{self._scope().names.key('~' + what)}"

    def _scope(self) -> Scope:
        scope = current_scope()
        if scope is None or scope.context is not self:
            raise RuntimeError(
                f"a durable call of run {self._key} was made outside of its body: from a thread, "
                "a callback or a task that was not started by the body. Call it from the body"
            )
        return scope

    # --- steps ----------------------------------------------------------------------------------

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
        """Call ``fn(*args, **kwargs)`` once and record its outcome; serve it ever after.

        ``fn`` may be sync or async; a sync one runs on the event loop unless it has a ``timeout``
        (seconds). ``retry`` takes a RetryPolicy, a RetryConfig, or LangGraph's or Google ADK's own
        objects. What it returns must be JSON, a pydantic model or a dataclass.

        Raises what ``fn`` raised (or RecordedError where that cannot be rebuilt), TimeoutError,
        ResultNotSerializable, OutcomeUnknown, ValueError for impossible options.
        """
        call = StepCall.checked(
            name,
            fn,
            args,
            kwargs,
            retry=retry,
            timeout=timeout,
            on_unknown=on_unknown,
            once=False,
        )
        return await self._do(call)

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
        """As ``step``, but at most once: the call is announced in the journal before it is made.

        After a crash in between its outcome is unknown, and ``on_unknown`` decides: ``"fail"``
        raises OutcomeUnknown, ``"ask"`` opens an interrupt, ``"retry"`` calls it again.
        """
        call = StepCall.checked(
            name, fn, args, kwargs, retry=retry, timeout=timeout, on_unknown=on_unknown, once=True
        )
        return await self._do(call)

    async def _do(self, call: StepCall) -> Any:
        scope = self._scope()
        request = call.request(scope.names.key(call.name))
        begun = self._delivery.recording.intents.get(request.key)
        recorded = await self._delivery.serve(request)
        if recorded is not None:
            return self._recorded(recorded)
        try:
            if call.announced:
                await self._announce(call, request, begun)
            event = await self._run(call, request, scope)
        except Exception as error:  # noqa: BLE001 (the step's outcome, whatever it is)
            event, seen = failed(request, error)
            self.failures.append((seen, event))
            await self._delivery.commit(request.key, event, held=True)
            raise seen from seen.__cause__
        return outcome_of(await self._delivery.commit(request.key, event))

    def _recorded(self, event: Event) -> Any:
        try:
            return outcome_of(event)
        except Exception as error:
            self.failures.append((error, event))
            raise

    async def _run(self, call: StepCall, request: Request, scope: Scope) -> Event:
        """Run the step inside a scope of its own, so that sub-steps hang below its key."""
        self._delivery.check_held()
        inside = Scope(self, scope.names.inside(request.key), scope.task, request.key)
        token = SCOPE.set(inside)
        self._delivery.working(+1)
        try:
            return await run_attempts(
                call,
                entropy=self._entropy,
                boundary=lambda: self._between_attempts(inside, request),
                request=request,
            )
        finally:
            self._delivery.working(-1)
            SCOPE.reset(token)

    def _between_attempts(self, inside: Scope, request: Request) -> None:
        """Let the next attempt ask for its sub-steps anew; it is served those recorded."""
        self._delivery.check_stopped()
        self._delivery.check_held()
        inside.names = ScopeNames().inside(request.key)
        inside.attempt += 1

    async def _announce(self, call: StepCall, request: Request, begun: Event | None) -> None:
        """Record that the call is about to be made; decide what a former one means."""
        if begun is not None and call.on_unknown == "fail":
            raise unknown_outcome(request)
        if begun is not None and call.on_unknown == "ask":
            answer = await self.interrupt(
                {"step": request.key, "question": "outcome unknown: 'retry' or 'fail'?"},
                name=f"{call.name}?",
            )
            if answer != "retry":
                raise unknown_outcome(request)
        started = Event(EventType.STEP_STARTED, {"key": request.key, "input": request.digest})
        await self._delivery.commit(f"{request.key}!started", started)

    # --- waiting --------------------------------------------------------------------------------

    async def sleep(self, seconds: float | timedelta, *, name: str = "sleep") -> None:
        """Wait durably: a run that sleeps holds no worker, and wakes up after any restart."""
        length = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        key = self._scope().names.key(name)
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
        scope = self._scope()
        request = Request(scope.names.key(f"signal:{name}"), "signal", None, name)
        timers: list[Wait] = []
        if timeout is not None:
            timer_key = f"{request.key}!timeout"
            begun = self._delivery.recording.intents.get(timer_key)
            fired = self._delivery.recording.request(Request(timer_key, "timer"))
            timer = self._timer(timer_key, timeout, begun)
            timers = [timer if fired is None else Wait(timer_key, "timer")]
        event = await self._delivery.signal(name, request, *timers)
        if event.type is EventType.TIMER_FIRED:
            raise TimeoutError(f"no signal {name!r} came within {timeout} s")
        return None if event.payload is None else JSON_CODEC.decode(event.payload)

    async def interrupt(
        self,
        value: Any = None,
        *,
        name: str = "interrupt",
        response_schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Put a question to a person and return the answer, whenever it comes.

        ``value`` is what is asked (JSON); ``response_schema`` a JSON schema that answers must fit.
        The question's id is stable; it is answered with ``client.answer``.
        """
        key = self._scope().names.key(name)
        asked = JSON_CODEC.encode(value)
        digest = hashlib.blake2b(asked.body, digest_size=8).hexdigest()
        event = await self._delivery.serve(Request(key, "interrupt", digest, name))
        if event is None:
            event = await self._delivery.wait(self._question(key, digest, response_schema, value))
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

    async def continue_as_new(self, *args: Any) -> None:
        """End this run and go on as a new one with ``args`` and a fresh journal."""
        raise ContinueAsNew(JSON_CODEC.encode(list(args)))
