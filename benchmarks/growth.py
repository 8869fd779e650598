"""How many bytes and how much time a step takes while a graph's message list grows.

A node adds one message of 1 KB a step. The same graph runs plain, durable, and compiled with
LangGraph's own AsyncSqliteSaver, in one process and in turns of ten steps. Both files are in WAL
mode with synchronous=FULL, and both graphs run with durability="sync".

The promise is about bytes only: 1,000 steps stay under 4 MB. Times are printed beside it.

    python benchmarks/growth.py [--steps 50,200,1000,2000] [--peer-max 1000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from graphs import config_for, growing, message_bytes, sqlite_saver, wrapped
from measure import Contestant, Spread, Step, checkpointed_bytes, in_turns, ratios, table

from pyrula_core import open_store

PLAIN: Final = "LangGraph, no saver"
OURS: Final = "durable(graph)"
PEER: Final = "AsyncSqliteSaver"

turn_steps: Final = 10
promise_steps: Final = 1000
promise_bytes_max: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """One contestant at one size: bytes of its file, and milliseconds a step."""

    steps: int
    name: str
    bytes: int | None
    step_ms: float
    against_plain: Spread
    against_ours: Spread


def contestants(steps: int, folder: Path, *, with_peer: bool) -> dict[str, Contestant]:
    """Return who runs the graph; their files are ``ours.db`` and ``peer.db``."""

    async def plain(step: Step) -> None:
        await growing(steps, step).ainvoke({"messages": []}, config_for(steps))

    async def ours(step: Step) -> None:
        store = open_store(f"sqlite:///{folder}/ours.db")
        graph = wrapped(growing(steps, step), store)
        await graph.ainvoke({"messages": []}, config_for(steps))
        store.close()

    async def peer(step: Step) -> None:
        async with sqlite_saver(folder / "peer.db") as saver:
            graph = growing(steps, step, saver)
            await graph.ainvoke({"messages": []}, config_for(steps), durability="sync")

    return {PLAIN: plain, OURS: ours, PEER: peer} if with_peer else {PLAIN: plain, OURS: ours}


async def measured(steps: int, *, with_peer: bool) -> list[Result]:
    """Run every contestant to ``steps`` steps and return what it took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # One step more, so that the last turn is a full one.
        run = contestants(steps + 1, folder, with_peer=with_peer)
        times = await in_turns(run, stretch=turn_steps)
        sizes = {
            PLAIN: None,
            OURS: checkpointed_bytes(folder / "ours.db"),
            PEER: checkpointed_bytes(folder / "peer.db") if with_peer else None,
        }
    return [
        Result(
            steps,
            name,
            sizes[name],
            statistics.mean(times[name].wall) * 1000,
            ratios(times[name].wall, times[PLAIN].wall),
            ratios(times[name].wall, times[OURS].wall),
        )
        for name in times
    ]


def cells(result: Result) -> list[str]:
    """Return a result as a line of the table."""
    size, kept = "-", "-"
    if result.bytes is not None:
        size = f"{result.bytes / 1e6:.2f} MB"
        kept = f"{result.bytes / (result.steps * message_bytes):.2f}"
    return [
        f"{result.steps:,}",
        result.name,
        size,
        kept,
        f"{result.step_ms:.2f}",
        f"{result.against_plain.median:.2f}",
        f"{result.against_ours.median:.2f}",
    ]


def verdict(results: list[Result]) -> tuple[str, bool]:
    """Return the promise with whether it holds; sizes that were not asked for decide nothing."""
    asked = [one for one in results if one.name == OURS and one.steps == promise_steps]
    promise = f"{promise_steps:,} steps under {promise_bytes_max / 1e6:.2f} MB"
    if not asked or asked[0].bytes is None:
        return f"NOT MEASURED: {promise} (add {promise_steps} to --steps)", True
    kept = asked[0].bytes < promise_bytes_max
    return f"{'PASS' if kept else 'FAIL'}: {promise}: {asked[0].bytes / 1e6:.2f} MB", kept


def report(results: list[Result], peer_max: int) -> str:
    """Return everything that is printed."""
    head = ["steps", "who", "file", "bytes / payload", "ms a step", "x plain", "x durable"]
    largest = max(one.steps for one in results)
    lines = [
        "A message list that grows by 1 KB a step; WAL, synchronous=FULL and durability=sync for",
        "both files, whose sizes are after a checkpoint of the log. Ratios: medians over turns.",
        "",
        table(head, [cells(one) for one in results]),
        "",
    ]
    if largest > peer_max:
        lines += [
            f"AsyncSqliteSaver was not run beyond {peer_max:,} steps: it stores the whole list",
            f"anew each step, which is about 2 GB at 2,000. --peer-max {largest} runs it.",
        ]
    times = {(one.name, one.steps): one.step_ms for one in results}
    if {(OURS, 200), (OURS, 2000)} <= times.keys():
        whole = times[OURS, 2000] / times[OURS, 200]
        plain = times[PLAIN, 2000] / times[PLAIN, 200]
        added = (times[OURS, 2000] - times[PLAIN, 2000]) / (times[OURS, 200] - times[PLAIN, 200])
        lines += [
            "Time a step of a run of 2,000 steps against one of 200 (goal: flat, 1.2 x):",
            f"{whole:.2f} x; plain LangGraph {plain:.2f} x; what durable() adds {added:.2f} x.",
        ]
    return "\n".join([*lines, verdict(results)[0]])


def main() -> int:
    """Run from the command line; 0 when the promise holds."""
    parser = argparse.ArgumentParser(description="Bytes and time of a growing message list.")
    parser.add_argument("--steps", default="50,200,1000,2000", help="sizes, with commas between")
    parser.add_argument("--peer-max", type=int, default=1000, help="the largest size of the peer")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    results: list[Result] = []
    for steps in sorted(int(size) for size in chosen.steps.split(",")):
        results += asyncio.run(measured(steps, with_peer=steps <= chosen.peer_max))
    promise, kept = verdict(results)
    if chosen.json:
        print(json.dumps({"results": [asdict(one) for one in results], "promise": promise}))
    else:
        print(report(results, chosen.peer_max))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
