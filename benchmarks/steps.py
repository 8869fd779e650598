"""What a recorded step costs, against what it cannot be cheaper than and against LangGraph's saver.

Contestants run in one process and take turns; see measure.py. Every row is put beside its goal. A
miss is printed as a miss and does not change the exit code: times on a shared machine are no test.

    python benchmarks/steps.py [--only bare,graph,concurrent,fanout,resume,import] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from graphs import config_for, counting, fanning_out, sqlite_saver, wrapped
from measure import Contestant, RawCommits, Spread, Step, Times, in_turns, ratios, rounds, table
from resume import body_resumes, graph_resumes

from pyrula_core import Context, InlineWorkflowRunner, Registry, open_store, workflow
from pyrula_core.ports import Store

stretch_steps: Final = 20
bare_steps: Final = 600
graph_steps: Final = 300
concurrent_runs: Final = 200
concurrent_steps: Final = 10
fanout_nodes: Final = 500
resumed_steps: Final = 1000
round_count: Final = 2
import_count: Final = 7

IMPORT: Final = (
    "import sys, time; began = time.perf_counter(); import pyrula_core; "
    "print(time.perf_counter() - began, 'langgraph' in sys.modules)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: what came out, and the most (or the least) it should be."""

    what: str
    unit: str
    spread: Spread
    goal: float
    at_least: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the median meets the goal."""
        median = self.spread.median
        return median >= self.goal if self.at_least else median <= self.goal


@contextmanager
def folder_with_store() -> Iterator[tuple[Path, Store]]:
    """Give a temporary folder with an open store of full durability."""
    with tempfile.TemporaryDirectory() as name:
        store = open_store(f"sqlite:///{name}/ours.db")
        try:
            yield Path(name), store
        finally:
            store.close()


def milliseconds(times: dict[str, Times]) -> str:
    """Return the median times of each contestant, for orientation: on the wall, and of the CPU."""
    medians = {
        name: (Spread.of(each.wall).median * 1000, Spread.of(each.cpu).median * 1000)
        for name, each in times.items()
    }
    return ", ".join(f"{name} {wall:.3g} ({cpu:.3g})" for name, (wall, cpu) in medians.items())


def against(times: dict[str, Times], above: str, below: str) -> Spread:
    """Return the ratios of the times of two contestants."""
    return ratios(times[above].wall, times[below].wall)


# --- one run, one step after the other ------------------------------------------------------------


async def bare() -> list[Row]:
    """A body's sequential async steps against raw commits."""
    registry = Registry()

    async def echo(number: int) -> int:
        return number

    with folder_with_store() as (folder, store):

        async def engine(step: Step) -> None:
            @workflow(name="sequence", registry=registry)
            async def body(ctx: Context) -> None:
                for number in range(bare_steps + 1):
                    await step()
                    await ctx.step("echo", echo, number)

            await InlineWorkflowRunner(store, registry=registry).run("sequence", "run")

        raw = partial(RawCommits(folder / "raw.db").contest, bare_steps + 1)
        times = await in_turns({"raw": raw, "bare": engine}, stretch=stretch_steps)
    spread = against(times, "bare", "raw")
    return [Row("bare step / raw commit", "x", spread, 1.15, note=milliseconds(times))]


async def graph() -> list[Row]:
    """A graph's sequential steps: plain, durable, and with LangGraph's saver."""
    steps = graph_steps + 1
    start, config = {"done": 0}, config_for(steps)
    with folder_with_store() as (folder, store):

        async def plain(step: Step) -> None:
            await counting(steps, step).ainvoke(start, config)

        async def ours(step: Step) -> None:
            await wrapped(counting(steps, step), store).ainvoke(start, config)

        async def saver(step: Step) -> None:
            async with sqlite_saver(folder / "peer.db") as peer:
                await counting(steps, step, peer).ainvoke(start, config, durability="sync")

        raw = partial(RawCommits(folder / "raw.db").contest, steps)
        named: dict[str, Contestant] = {
            "raw": raw,
            "plain": plain,
            "durable": ours,
            "AsyncSqliteSaver": saver,
        }
        times = await in_turns(named, stretch=stretch_steps)
    both = zip(times["durable"].wall, times["plain"].wall, strict=True)
    added = [durable - plain for durable, plain in both]
    over = against(times, "AsyncSqliteSaver", "durable")
    return [
        Row(
            "(durable step - plain step) / raw commit",
            "x",
            ratios(added, times["raw"].wall),
            1.3,
            note=milliseconds(times),
        ),
        Row("AsyncSqliteSaver step / durable step", "x", over, 2.5, at_least=True),
    ]


# --- many at once ---------------------------------------------------------------------------------


async def concurrent() -> list[Row]:
    """Many runs at once, of a few steps each."""
    with folder_with_store() as (folder, store):
        async with sqlite_saver(folder / "peer.db") as peer:

            async def all_of(invoke: Any, number: int, **options: Any) -> None:
                configs = (
                    config_for(concurrent_steps, f"{number}-{run}")
                    for run in range(concurrent_runs)
                )
                await asyncio.gather(*(invoke({"done": 0}, each, **options) for each in configs))

            steps = concurrent_steps
            saving = partial(counting(steps, saver=peer).ainvoke, durability="sync")
            times = await rounds(
                {
                    "plain": partial(all_of, counting(steps).ainvoke),
                    "durable": partial(all_of, wrapped(counting(steps), store).ainvoke),
                    "AsyncSqliteSaver": partial(all_of, saving),
                },
                round_count,
            )
    name = f"{concurrent_runs} runs x {concurrent_steps} steps"
    note, over = milliseconds(times), against(times, "AsyncSqliteSaver", "durable")
    return [
        Row(
            f"{name}: durable / plain",
            "x",
            against(times, "durable", "plain"),
            1.1,
            note=note,
        ),
        Row(f"{name}: AsyncSqliteSaver / durable", "x", over, 4, at_least=True),
    ]


async def fanout() -> list[Row]:
    """One superstep of many nodes."""
    start: Any = {"number": 0, "seen": []}

    async def once(invoke: Any, number: int) -> None:
        await invoke(start, config_for(1, f"fan-{number}"))

    with folder_with_store() as (_, store):
        times = await rounds(
            {
                "plain": partial(once, fanning_out(fanout_nodes).ainvoke),
                "durable": partial(once, wrapped(fanning_out(fanout_nodes), store).ainvoke),
            },
            3 * round_count,
        )
    spread = against(times, "durable", "plain")
    what = f"Send to {fanout_nodes} nodes: durable / plain"
    return [Row(what, "x", spread, 1.15, note=milliseconds(times))]


# --- once -----------------------------------------------------------------------------------------


async def resume() -> list[Row]:
    """The way back into a long run."""
    with tempfile.TemporaryDirectory() as name:
        of_graph = await graph_resumes(resumed_steps, Path(name), 3 * round_count)
        of_body = await body_resumes(resumed_steps, Path(name), 3 * round_count)
    after = f"resume after {resumed_steps:,} steps"
    each = [seconds * 1e6 / resumed_steps for seconds in of_body]
    return [
        Row(f"{after}: graph", "ms", Spread.of([seconds * 1000 for seconds in of_graph]), 15),
        Row(f"{after}: body, an event", "us", Spread.of(each), 5),
    ]


async def importing() -> list[Row]:
    """The import of the core in a fresh interpreter; it must not bring langgraph."""
    with tempfile.TemporaryDirectory() as compiled:
        # The first one compiles what is imported and is not counted.
        each = [await asyncio.to_thread(import_ms, compiled) for _ in range(import_count + 1)]
    return [Row("import pyrula_core (no langgraph)", "ms", Spread.of(each[1:]), 150)]


def import_ms(compiled: str) -> float:
    """Return what the import takes; raises RuntimeError when langgraph came with it."""
    command = [sys.executable, "-X", f"pycache_prefix={compiled}", "-c", IMPORT]
    here = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=here)
    answer = told.stdout.split()
    if answer[1] != "False":
        raise RuntimeError("importing pyrula_core has imported langgraph")
    return float(answer[0]) * 1000


SCENARIOS: Final[dict[str, Callable[[], Awaitable[list[Row]]]]] = {
    "bare": bare,
    "graph": graph,
    "concurrent": concurrent,
    "fanout": fanout,
    "resume": resume,
    "import": importing,
}


async def measured(names: list[str]) -> list[Row]:
    """Measure the scenarios of these names, one after the other."""
    return [row for name in names for row in await SCENARIOS[name]()]


def cells(row: Row) -> list[str]:
    """Return a row as a line of the table."""
    spread = row.spread
    return [
        row.what,
        f"{spread.median:.2f} {row.unit}",
        f"{spread.low:.2f} to {spread.high:.2f}",
        f"{'>=' if row.at_least else '<='} {row.goal:g} {row.unit}",
        "holds" if row.holds else "MISS",
        row.note,
    ]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="What a recorded step costs, as ratios.")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="with commas between")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    rows = asyncio.run(measured(chosen.only.split(",")))
    if chosen.json:
        print(json.dumps([asdict(row) | {"holds": row.holds} for row in rows]))
    else:
        print(
            table(
                ["what", "median", "range", "goal", "now", "ms (of it CPU)"],
                [cells(r) for r in rows],
            )
        )


if __name__ == "__main__":
    main()
