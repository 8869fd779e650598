"""Runs one step in this process: attempts, timeouts, and what its outcome is recorded as.

One of the two places where user code is called. Must never write to a journal itself: outcomes are
returned as events.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyrula_core.control import RunStop
from pyrula_core.errors import OutcomeUnknown, ResultNotSerializable
from pyrula_core.events import Event, EventType
from pyrula_core.failure import FailureRecord
from pyrula_core.fingerprint import shape
from pyrula_core.ports import Entropy
from pyrula_core.rebuild import live, rebuild
from pyrula_core.replay import Request
from pyrula_core.retry import RetryPolicy
from pyrula_core.retry_config import as_policy
from pyrula_core.values import JSON_CODEC

__all__ = ["OnUnknown", "Pauses", "StepCall", "failed", "outcome_of", "run_attempts"]

log = logging.getLogger("pyrula.step")

OnUnknown = Literal["retry", "fail", "ask"]


@dataclass(frozen=True, slots=True)
class StepCall:
    """A step as it was asked for: what to call, with what, and how often."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    policy: RetryPolicy | None = None
    timeout: float | None = None
    on_unknown: OnUnknown = "retry"
    announced: bool = False

    @classmethod
    def checked(
        cls,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        retry: object,
        timeout: float | None,
        on_unknown: OnUnknown,
        once: bool,
    ) -> StepCall:
        """Return a call after checking it; raises ValueError or TypeError, before any effect."""
        if not callable(fn):
            raise TypeError(f"step {name!r}: {fn!r} cannot be called; pass the function itself")
        if not name or any(mark in name for mark in "/#>~!"):
            raise ValueError(f"step name {name!r} is not legal: use any text without / # > ~ !")
        if on_unknown not in ("retry", "fail", "ask"):
            raise ValueError(f"on_unknown={on_unknown!r} is not one of 'retry', 'fail', 'ask'")
        policy = as_policy(retry)
        if timeout is not None and policy is not None and not is_async(fn):
            raise ValueError(
                f"step {name!r}: a sync function cannot have both timeout= and retry=, since its "
                "abandoned attempt would still run beside the next one; make it async"
            )
        announced = once or on_unknown != "retry"
        return cls(name, fn, args, kwargs, policy, timeout, on_unknown, announced)

    def request(self, key: str, digest: str) -> Request:
        """Return what the journal is asked for."""
        return Request(key, "step", digest, shape(self.args, self.kwargs))


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling ``fn`` gives a coroutine, looking through partials and objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004 (asks whether it is async, not callable)
    )


class Pauses:
    """How a step waits between its attempts; this one in memory, for a process that lives.

    ``tried`` counts the attempts that were made in former lives of the run.
    """

    tried = 0

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def elapsed(self) -> float:
        """Return the seconds since the first attempt began."""
        return asyncio.get_running_loop().time() - self._began

    async def pause(self, number: int, delay: float, error: Exception) -> None:
        """Wait ``delay`` seconds after attempt ``number`` raised ``error``."""
        del number, error
        await asyncio.sleep(delay)


async def run_attempts(
    call: StepCall,
    *,
    entropy: Entropy,
    boundary: Callable[[], None],
    request: Request,
    pauses: Pauses | None = None,
) -> Event:
    """Call the step until it succeeds or may not be tried again; return its ``step:done``.

    Raises what the last attempt raised. ``boundary`` is called between attempts and raises when
    the run was stopped meanwhile.
    """
    pauses = pauses or Pauses()
    number = pauses.tried
    while True:
        number += 1
        try:
            value = await one_attempt(call)
            break
        except Exception as error:
            # The boundary around the step body: whatever it raises is its outcome.
            if call.policy is None:
                raise
            delay = call.policy.next_wait(
                error, number, random=entropy.random(), elapsed=pauses.elapsed(), now=time.time()
            )
            if delay is None:
                raise
            failure = error
        log.info("step_retrying name=%s attempt=%d delay_s=%.3f", call.name, number, delay)
        await pauses.pause(number, delay, failure)
        boundary()
    return done(request, value, number)


async def one_attempt(call: StepCall) -> Any:
    """Call the step once; its own CancelledError becomes an ordinary failure."""
    args, kwargs = call.args, call.kwargs
    if call.policy is not None:
        args, kwargs = fresh(args), fresh(dict(kwargs))
    try:
        if call.timeout is None:
            result = call.fn(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        if is_async(call.fn):
            async with asyncio.timeout(call.timeout):
                return await call.fn(*args, **kwargs)
        return await in_thread(call, args, kwargs)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Raised inside (a library's own cancel scope): nobody asked this run to stop.
        raise RuntimeError(f"step {call.name!r} raised {error!r} by itself") from error


async def in_thread(call: StepCall, args: Any, kwargs: Any) -> Any:
    """Run a sync function in a thread; when time is up it is abandoned and its result dropped."""
    context = contextvars.copy_context()
    bound = functools.partial(context.run, functools.partial(call.fn, *args, **kwargs))
    work = asyncio.get_running_loop().run_in_executor(None, bound)
    finished, _ = await asyncio.wait({work}, timeout=call.timeout)
    if finished:
        return await work
    work.add_done_callback(functools.partial(note_late, call.name))
    raise TimeoutError(f"step {call.name!r} took longer than {call.timeout} s and was abandoned")


def note_late(name: str, work: asyncio.Future[Any]) -> None:
    """Say that an abandoned function has ended after all; its result is dropped."""
    outcome = "cancelled" if work.cancelled() else type(work.exception() or work.result()).__name__
    log.warning("late_result_dropped name=%s outcome=%s", name, outcome)


def fresh(value: Any) -> Any:
    """Return containers anew, so that one attempt's changes do not reach the next."""
    if type(value) is list:
        return [fresh(item) for item in value]
    if type(value) is tuple:
        return tuple(fresh(item) for item in value)
    if type(value) is dict:
        return {key: fresh(item) for key, item in value.items()}
    return set(value) if type(value) is set else value


def done(request: Request, value: object, attempts: int) -> Event:
    """Return the event of a success; raises ResultNotSerializable, which is never retried."""
    try:
        payload = JSON_CODEC.encode(value)
    except ResultNotSerializable as error:
        raise ResultNotSerializable(
            f"step {request.key!r} returned what cannot be recorded: {error.message}",
            path=error.path,
            type_path=error.type_path,
        ) from None
    return Event(EventType.STEP_DONE, fields_of(request, attempts=attempts), payload)


def failed(request: Request, error: BaseException) -> tuple[Event, BaseException]:
    """Return the event of a failure, and the exception that the body is to see for it.

    The body sees now what it would see on replay: the original where it can be rebuilt, a
    RecordedError where it cannot.
    """
    if isinstance(error, RunStop):
        raise error
    record, seen = live(error)
    return Event(EventType.STEP_ERROR, fields_of(request, failure=record.to_json())), seen


def fields_of(request: Request, **more: Any) -> dict[str, Any]:
    """Return the fields that every outcome of a step carries."""
    fields: dict[str, Any] = {"key": request.key, "input": request.digest}
    if request.shape:
        fields["shape"] = request.shape
    if more.get("attempts") == 1:
        del more["attempts"]
    return {**fields, **more}


def outcome_of(event: Event) -> Any:
    """Return what a recorded outcome stands for: the step's value, or raise its exception."""
    if event.type is EventType.STEP_ERROR:
        raise rebuild(FailureRecord.from_json(event.data["failure"]))
    return None if event.payload is None else JSON_CODEC.decode(event.payload)


def unknown_outcome(request: Request) -> OutcomeUnknown:
    """Return the error for a step that began and whose end nobody saw."""
    return OutcomeUnknown(
        f"step {request.key!r} was started and the process died before its outcome was recorded",
        hint="Find out whether its effect happened, then catch OutcomeUnknown or set on_unknown=",
    )
