"""Replays a run only to look at it: nothing starts, nothing is written.

Owns the answer to a query in a process that does not drive the run. The body runs from the journal
to its end, with every new durable call held back, and is thrown away.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pyrula_core.attempt import Attempt
from pyrula_core.body import BodyExecutor, unwind
from pyrula_core.children import Children
from pyrula_core.context import Context
from pyrula_core.control import Abandoned
from pyrula_core.delivery import Delivery, settle_turns
from pyrula_core.engine import Engine
from pyrula_core.errors import QueryError
from pyrula_core.events import Event
from pyrula_core.model import RunRow
from pyrula_core.registry import Definition
from pyrula_core.replay import Recording, Request

__all__ = ["query_replayed"]


class Observer(Delivery):
    """A delivery that serves a journal and then stands still; ``reached`` says when."""

    def __init__(self, attempt: Attempt, recording: Recording) -> None:
        super().__init__(attempt, recording)
        self.reached: asyncio.Future[None] = self._loop.create_future()

    async def _to_live(self, request: Request) -> None:
        """Hold every new call back for good."""
        del request
        await self._loop.create_future()

    async def _run(self) -> None:
        try:
            while not self.finished and self.stopped is None:
                if not self.live:
                    await self._replay_next()
                elif not self.reached.done():
                    for _ in range(settle_turns):
                        await asyncio.sleep(0)
                    if self.live:
                        self.reached.set_result(None)
                else:
                    await self._poked()
        except Exception as error:  # noqa: BLE001 (the caller is told, whatever it is)
            self.fail(error)


async def query_replayed(
    engine: Engine,
    row: RunRow,
    definition: Definition,
    history: list[Event],
    name: str,
    args: tuple[Any, ...],
) -> Any:
    """Return what a run's query function says of the state that its journal holds.

    Raises QueryError, NondeterminismError when the code does not fit the journal.
    """
    attempt = Attempt(engine.store, row, clock=engine.clock, lease_ttl=engine.lease_ttl)
    observer = Observer(attempt, Recording(history))
    context = Context(attempt, observer, history[0], number=0, entropy=engine.entropy)
    executor = BodyExecutor(definition, engine.entropy, Children(engine, row.key))
    context.attach(executor.children)
    task = asyncio.create_task(executor.run_body(context, history[0]), name=f"query {row.key}")
    observer.start()
    try:
        waited = {task, observer.reached, observer.stopping}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if observer.fatal is not None:
            raise observer.fatal
        return context.answer_query(name, args)
    finally:
        observer.stop(Abandoned())
        await unwind({task, *context.tasks})
        await observer.finish()


def needs_body(definition: Definition | None, row: RunRow) -> Definition:
    """Return the definition whose body can answer; raises QueryError where there is none."""
    if definition is None or definition.body is None:
        raise QueryError(
            f"run {row.key} of version {row.version!r} cannot be queried in this process",
            hint="Ask a process that registers this workflow; graphs are asked with get_state",
        )
    return definition
