"""Runs a body from its journal: replay, then live, until it ends, waits or is stopped.

One of the two places where user code is called. Must never append a run's last event: it says how
the attempt ended, and the engine records it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from pyrula_core.attempt import Attempt
from pyrula_core.children import Children
from pyrula_core.context import Context
from pyrula_core.control import (
    Abandoned,
    CancelRequested,
    ContinueAsNew,
    PauseRequested,
    RunStop,
    Suspended,
)
from pyrula_core.delivery import Delivery
from pyrula_core.endings import (
    Cancelled,
    Completed,
    Continued,
    Ending,
    Failed,
    StoodDown,
    Waiting,
    run_code,
)
from pyrula_core.errors import (
    EventRefused,
    NondeterminismError,
    PayloadTooLarge,
    ResultNotSerializable,
    StoreError,
)
from pyrula_core.events import Event, EventType
from pyrula_core.failure import capture
from pyrula_core.model import RunKind
from pyrula_core.ports import Entropy
from pyrula_core.registry import Definition
from pyrula_core.replay import Recording

__all__ = ["BodyExecutor", "failure_of", "unwind"]

# How long a stopped body may take over its ``finally`` blocks before it is cancelled outright.
unwind_s: Final = 10.0


class BodyExecutor:
    """Executes ``async def body(ctx, *args)``."""

    def __init__(self, definition: Definition, entropy: Entropy, children: Children) -> None:
        self.definition = definition
        self.entropy = entropy
        self.children = children

    async def execute(self, attempt: Attempt, history: list[Event]) -> Ending:
        """Run the body as far as it goes; the ending is not recorded yet, unless it waits."""
        created = history[0]
        delivery = Delivery(attempt, Recording(history))
        delivery.now = created.data.get("began", created.at)
        number = sum(event.type is EventType.RUN_CLAIMED for event in history)
        context = Context(attempt, delivery, created, number=number, entropy=self.entropy)
        context.attach(self.children)
        task = asyncio.create_task(self.run_body(context, created), name=f"body {attempt.key}")
        delivery.start()
        try:
            await self._until_done(task, delivery)
        except asyncio.CancelledError:
            delivery.stop(Abandoned())
            await unwind({task, *context.tasks})
            await delivery.finish()
            raise
        await unwind(context.tasks)
        held = await delivery.finish()
        return self._ending(task, delivery, context, held)

    async def run_body(self, context: Context, created: Event) -> Any:
        """Run the body with a context, from its recorded input."""
        context.enter()
        body = self.definition.body
        assert body is not None, "a definition without a body brings its own executor"
        payload = created.payload
        args = [] if payload is None else self.definition.input_codec.decode(payload)
        result = await body(context, *args)
        await context.join_children()
        return result

    async def _until_done(self, task: asyncio.Task[Any], delivery: Delivery) -> None:
        """Wait for the body; one that was stopped gets ``unwind_s`` for its ``finally`` blocks."""
        waited = {task, delivery.stopping}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        match delivery.stopped:
            case PauseRequested():
                await delivery.steps_ended()
            case CancelRequested():
                await delivery.steps_ended(unwind_s)
            case _:
                pass
        if not task.done():
            await asyncio.wait({task}, timeout=unwind_s)
            await unwind({task})

    def _ending(
        self, task: asyncio.Task[Any], delivery: Delivery, context: Context, held: list[Event]
    ) -> Ending:
        """Decide from what was asked of the run first, and only then from what the body did."""
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            error = RuntimeError("the body was cancelled from within")
        if delivery.fatal is not None:
            return self._fatal(delivery.fatal, error)
        match delivery.stopped:
            case Suspended():
                return Waiting()
            case CancelRequested():
                return Cancelled(held)
            case Abandoned():
                return StoodDown(error)
            case RunStop():
                return Waiting(paused=True)
            case None:
                pass
        if isinstance(error, ContinueAsNew):
            return Continued(error.payload, held)
        if error is not None:
            return self._failed(error, context, held)
        return self._completed(task.result(), held)

    def _fatal(self, fatal: Exception, error: BaseException | None) -> Ending:
        if not isinstance(fatal, StoreError) or isinstance(fatal, EventRefused):
            if error is not None and error is not fatal and fatal.__cause__ is None:
                fatal.__cause__ = error
            return failure_of(fatal, self.definition.kind)
        return StoodDown(fatal)

    def _completed(self, value: Any, held: list[Event]) -> Ending:
        try:
            return Completed(self.definition.output_codec.encode(value), held)
        except (ResultNotSerializable, PayloadTooLarge) as error:
            return failure_of(error, self.definition.kind, held)

    def _failed(self, error: BaseException, context: Context, held: list[Event]) -> Ending:
        """Leave out the step failures that ended the body: a retry runs those steps again."""
        chain = set(map(id, chain_of(error)))
        keys = [event.data["key"] for seen, event in context.failures if id(seen) in chain]
        kept = [event for event in held if event.data["key"] not in keys]
        return failure_of(error, self.definition.kind, kept, keys)


def failure_of(
    error: BaseException, kind: RunKind, events: list[Event] | None = None, steps: Any = ()
) -> Failed:
    """Return the ending for an error that left the body; ``steps`` are the keys that caused it."""
    record = capture(error)
    code = run_code(error, kind)
    detail: dict[str, Any] = {"steps": list(steps)} if steps else {}
    if isinstance(error, NondeterminismError):
        detail |= {"recorded": error.recorded, "asked": error.asked, "seq": error.seq}
    if isinstance(error, ResultNotSerializable):
        detail |= {"path": error.path, "type": error.type_path}
    return Failed(code, record.to_json(), record.user_code, detail, events or [], error)


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Return an exception with everything it was raised from, or holds as a group."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions


async def unwind(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks until every one of them has ended: none may act after its run has gone on."""
    while open_tasks := {task for task in tasks if not task.done()}:
        for task in open_tasks:
            task.cancel()
        await asyncio.wait(open_tasks, timeout=1.0)
    for task in tasks:
        if not task.cancelled():
            task.exception()
