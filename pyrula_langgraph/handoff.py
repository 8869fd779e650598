"""Lets the caller of ``ainvoke`` or ``stream`` run a leg itself, while the engine holds the run.

The graph then runs in the caller's own task or thread, with its context, and its chunks need no
queue. The engine waits for what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from pyrula_core.adapter import Ending
from pyrula_langgraph.executor import UNSET, Plan, Returned, run_plan
from pyrula_langgraph.leg import LEG

__all__ = ["HandOff"]


class HandOff:
    """The meeting point of an engine's attempt and the caller that runs the graph."""

    def __init__(self) -> None:
        self.plan: Future[Plan | None] = Future()
        self.returned: Future[Returned] = Future()

    async def run(self, plan: Plan) -> Returned:
        """Hand a leg to the caller and wait; a second leg has no caller and runs here."""
        if self.plan.done():
            return await run_plan(plan)
        self.plan.set_result(plan)
        return await asyncio.wrap_future(self.returned)

    def ended(self, _: asyncio.Task[Ending]) -> None:
        """Note that the attempt is over: a caller that still waits for a leg gets none."""
        if not self.plan.done():
            self.plan.set_result(None)

    @contextmanager
    def running(self, plan: Plan) -> Iterator[Returning]:
        """Give the caller the leg's context, and the engine whatever comes of it."""
        token = LEG.set(plan.leg)
        returning = Returning()
        try:
            yield returning
        except BaseException as error:
            returning.error = error
            raise
        finally:
            try:
                LEG.reset(token)
            except ValueError:
                # A generator that is closed from another context; its own copy ends with it.
                LEG.set(None)
            self.returned.set_result(Returned(returning.value, returning.error))


class Returning:
    """What a caller's leg has come to so far."""

    def __init__(self) -> None:
        self.value: Any = UNSET
        self.error: BaseException | None = None
