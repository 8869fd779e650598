"""What a body can ask: who it is, the time and randomness of its run, and its steps.

Owns the translation of steps into requests. Must never touch a store: everything durable goes
through ``Delivery``.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyrula_core.attempt import Attempt
from pyrula_core.delivery import Delivery
from pyrula_core.durable_pauses import DurablePauses
from pyrula_core.events import Event, EventType
from pyrula_core.fingerprint import fingerprint
from pyrula_core.ports import Entropy
from pyrula_core.replay import SUBSTEP, Request, ScopeNames
from pyrula_core.scopes import SCOPE, Scope, current_scope
from pyrula_core.steps import (
    OnUnknown,
    Pauses,
    StepCall,
    failed,
    outcome_of,
    run_attempts,
    unknown_outcome,
)

__all__ = ["StepCalls"]


class StepCalls:
    """The facts of a run, and its steps.

    ``tasks`` and ``failures`` are the engine's: the concurrent tasks that made durable calls, and
    the step failures that the body was shown.
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
        self._root: asyncio.Task[Any] | None = None
        self._patches: dict[str, bool] = {}
        self.failures: list[tuple[BaseException, Event]] = []

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
        key = self._scope("~" + what).names.key("~" + what)
        return f"{self.name}\0{self._random_seed}\0{key}"

    def branch(self, names: ScopeNames, name: str, digest: str | None) -> ScopeNames:
        """Return the names of a concurrent task that asks for ``name`` first."""
        return self._delivery.recording.branch(names, name, digest)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Take note of a concurrent task of this run."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _alone(self, scope: Scope) -> bool:
        """Tell whether the caller is the body itself, with no concurrent task beside it."""
        return not self.tasks and scope.task is self._root

    def _waiting_scope(self, name: str, digest: str | None = None) -> Scope:
        """Return the caller's scope for a call that waits; a step must not."""
        scope = self._scope(name, digest)
        if scope.step_key is not None:
            raise RuntimeError(
                f"step {scope.step_key!r} of run {self._key} waits for {name!r}; a step runs in "
                "one go. Let the body wait, and hand the step what it waited for"
            )
        return scope

    def _scope(self, name: str = "", digest: str | None = None) -> Scope:
        scope = current_scope(name, digest)
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

    async def patched(self, change: str) -> bool:
        """Tell whether this run takes a change of the code, named ``change``.

        True for a run that first comes here with the new code, and ever after for that run; False
        for one whose journal was already longer when the change was made::

            if await ctx.patched("mail-twice"):
                await ctx.step("mail again", mail)
        """
        name = f"patched:{change}"
        scope = self._scope(name)
        key = f"{scope.names.prefix}{name}#0"
        if key in self._patches:
            return self._patches[key]
        request = Request(key, "step", None, "")
        taken = key in self._delivery.recording.completed
        if taken:
            await self._delivery.serve(request, alone=self._alone(scope))
        elif self._delivery.live:
            taken = True
            marker = Event(EventType.STEP_DONE, {"key": key})
            await self._delivery.commit(key, marker)
        self._patches[key] = taken
        return taken

    async def _do(self, call: StepCall) -> Any:
        digest = fingerprint(call.args, call.kwargs)
        scope = self._scope(call.name, digest)
        request = call.request(scope.names.key(call.name), digest)
        begun = self._delivery.recording.intents.get(request.key)
        recorded = await self._delivery.serve(request, alone=self._alone(scope))
        if recorded is not None:
            return self._recorded(recorded)
        try:
            if call.announced:
                await self._announce(call, request, begun)
            event = await self._run(call, request, scope, begun)
        except asyncio.CancelledError:
            self._delivery.give_up(request)
            raise
        except Exception as error:  # noqa: BLE001 (the step's outcome, whatever it is)
            event, seen = failed(request, error)
            self.failures.append((seen, event))
            await self._delivery.commit(request.key, event, held=True)
            raise seen from seen.__cause__
        return outcome_of(await self._committed(request, event, scope))

    async def _committed(self, request: Request, event: Event, scope: Scope) -> Event:
        """Record a success; a body that gives up just then has given up."""
        alone = self._alone(scope) and scope.step_key is None
        commit = self._delivery.commit_alone if alone else self._delivery.commit
        try:
            return await commit(request.key, event)
        except asyncio.CancelledError:
            self._delivery.give_up(request)
            raise

    def _recorded(self, event: Event) -> Any:
        try:
            return outcome_of(event)
        except Exception as error:
            self.failures.append((error, event))
            raise

    async def _run(
        self, call: StepCall, request: Request, scope: Scope, begun: Event | None
    ) -> Event:
        """Run the step inside a scope of its own, so that sub-steps hang below its key."""
        pauses = Pauses()
        if call.policy is not None and call.policy.durable:
            pauses = DurablePauses(self._delivery, request, begun)
            await pauses.rest()
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
                pauses=pauses,
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

    async def _ask(self, value: Any, key: str) -> Any:
        """Put a question to a person; the calls that wait know how."""
        raise NotImplementedError

    async def _announce(self, call: StepCall, request: Request, begun: Event | None) -> None:
        """Record that the call is about to be made; decide what a former one means."""
        unknown = begun is not None and begun.type is EventType.STEP_STARTED
        if unknown and call.on_unknown == "fail":
            raise unknown_outcome(request)
        if unknown and call.on_unknown == "ask":
            question = {"step": request.key, "question": "outcome unknown: 'retry' or 'fail'?"}
            answer = await self._ask(question, f"{request.key}{SUBSTEP}unknown#0")
            if answer != "retry":
                raise unknown_outcome(request)
        started = Event(EventType.STEP_STARTED, {"key": request.key, "input": request.digest})
        await self._delivery.commit(f"{request.key}!started", started)
