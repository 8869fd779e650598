"""How long a run with many recorded steps takes until its next step begins.

The run is written once and waits at its end for an answer or a signal. Each round then opens a copy
of the file, as a new process would, and wakes the run up. Commits are not synced here, so that what
is measured is reading and replaying, not the disk.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from graphs import Count, config_for, looping, wrapped
from langgraph.graph import END
from langgraph.types import interrupt

from pyrula_core import Client, Context, InlineWorkflowRunner, Registry, open_store, workflow
from pyrula_core.ports import Store

__all__ = ["body_resumes", "graph_resumes"]

RUN: Final = "long-run"


def opened(path: Path) -> Store:
    """Open a store file without the sync of every commit."""
    return open_store(f"sqlite:///{path}?durability=process")


def copied(path: Path, number: int) -> Path:
    """Return a copy of a closed store file."""
    return Path(shutil.copy(path, path.with_suffix(f".{number}.db")))


async def graph_resumes(steps: int, folder: Path, count: int) -> list[float]:
    """Return seconds from ``answer`` to the first line of the node that asked, by round."""
    reached: list[float] = []

    async def work(state: Count) -> dict[str, int]:
        reached.append(time.perf_counter())
        if state["done"] == steps:
            interrupt("go on?")
        return {"done": state["done"] + 1}

    async def more(state: Count) -> str:
        return "work" if state["done"] <= steps else END

    graph: Any = looping(Count, "work", work, more, None)
    original = folder / "graph.db"
    with closing(opened(original)) as store:
        asked = await wrapped(graph, store).run_and_await(
            {"done": 0}, run_id=RUN, config=config_for(steps)
        )
    seconds = []
    for number in range(count):
        with closing(opened(copied(original, number))) as store:
            bot = wrapped(graph, store)
            reached.clear()
            began = time.perf_counter()
            await bot.answer(RUN, {asked.interrupts[0].id: True})
            seconds.append(reached[0] - began)
    return seconds


async def body_resumes(steps: int, folder: Path, count: int) -> list[float]:
    """Return seconds from ``run`` until the body has been given its whole journal, by round."""
    registry = Registry()
    reached: list[float] = []

    async def echo(number: int) -> int:
        return number

    @workflow(name="long", registry=registry)
    async def body(ctx: Context) -> None:
        for number in range(steps):
            await ctx.step("echo", echo, number)
        await ctx.wait_for_signal("go")
        reached.append(time.perf_counter())

    original = folder / "body.db"
    with closing(opened(original)) as store:
        await InlineWorkflowRunner(store, registry=registry).run("long", RUN)
    seconds = []
    for number in range(count):
        with closing(opened(copied(original, number))) as store:
            await Client(store, registry=registry).signal("long", RUN, "go")
            runner = InlineWorkflowRunner(store, registry=registry)
            reached.clear()
            began = time.perf_counter()
            await runner.run("long", RUN)
            seconds.append(reached[0] - began)
    return seconds
