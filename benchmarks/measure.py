"""What the benchmarks share: contestants that take turns, raw commits, file sizes, tables.

A shared machine is noisy, and most of all its disk. So contestants run in one process and take
turns of a few steps each; times are compared turn by turn, and the median of those ratios is
reported with the lowest and the highest. An absolute time is printed for orientation only.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw

__all__ = [
    "Contestant",
    "RawCommits",
    "Spread",
    "Step",
    "Times",
    "checkpointed_bytes",
    "in_turns",
    "ratios",
    "rounds",
    "table",
]

Step = Callable[[], Awaitable[None]]
"""What a contestant awaits at the beginning of each of its steps."""

Contestant = Callable[[Step], Awaitable[object]]

# About what a small recorded step takes in the journal.
raw_row_bytes: Final = 200


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some numbers, with the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """Return the spread of at least one number."""
        return cls(statistics.median(numbers), min(numbers), max(numbers))


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the spread of the ratios of numbers that were measured next to each other."""
    return Spread.of([up / down for up, down in zip(above, below, strict=False)])


@dataclass(frozen=True, slots=True)
class Times:
    """What one contestant took, in seconds, one number for each turn or round.

    ``wall`` includes waiting for the disk and for other processes; ``cpu`` is this process's own.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, began: tuple[float, float], *, steps: int = 1) -> None:
        """Add what has passed since ``began``, divided among steps."""
        wall, cpu = now()
        self.wall.append((wall - began[0]) / steps)
        self.cpu.append((cpu - began[1]) / steps)


def now() -> tuple[float, float]:
    """Return the time on the wall and the CPU time of this process."""
    return time.perf_counter(), time.process_time()


# --- turns ----------------------------------------------------------------------------------------


class Turns:
    """Lets one contestant go on at a time; ``times`` holds what a step took, turn by turn."""

    def __init__(self, names: Sequence[str], stretch: int) -> None:
        self.stretch = stretch
        self.times = {name: Times() for name in names}
        self._order = deque(names)
        self._called = {name: asyncio.Event() for name in names}
        self._call()

    def _call(self) -> None:
        if self._order:
            self._called[self._order[0]].set()

    async def compete(self, name: str, contestant: Contestant) -> None:
        """Run a contestant to its end. What comes before its first step is not timed."""
        await self._called[name].wait()
        count, began = 0, now()

        async def step() -> None:
            nonlocal count, began
            if count % self.stretch == 0:
                if count:
                    self.times[name].add(began, steps=self.stretch)
                await self._give_way(name)
                began = now()
            count += 1

        try:
            await contestant(step)
        finally:
            self._order.remove(name)
            self._call()

    async def _give_way(self, name: str) -> None:
        self._called[name].clear()
        self._order.rotate(-1)
        self._call()
        await self._called[name].wait()


async def in_turns(contestants: Mapping[str, Contestant], *, stretch: int = 20) -> dict[str, Times]:
    """Run contestants side by side, ``stretch`` steps at a time; return what a step took by turn.

    A step must leave nothing under way when the next one begins. A turn that is not full, and what
    follows the last step, is not counted: ask for one step more than a multiple of ``stretch``.
    """
    turns = Turns(list(contestants), stretch)
    async with asyncio.TaskGroup() as group:
        for name, contestant in contestants.items():
            group.create_task(turns.compete(name, contestant))
    return turns.times


async def rounds(
    contestants: Mapping[str, Callable[[int], Awaitable[object]]], count: int
) -> dict[str, Times]:
    """Run whole contestants one after the other, again and again; return times by round.

    Each is given the round's number. Round 0 warms up and is not counted.
    """
    times = {name: Times() for name in contestants}
    for number in range(count + 1):
        for name, contestant in contestants.items():
            began = now()
            await contestant(number)
            if number:
                times[name].add(began)
    return times


# --- files ----------------------------------------------------------------------------------------


class RawCommits:
    """One row a commit, in WAL mode with synchronous=FULL: the least that a durable step costs."""

    def __init__(self, path: Path) -> None:
        self.db = apsw.Connection(str(path))
        self.db.pragma("journal_mode", "wal")
        self.db.pragma("synchronous", "FULL")
        self.db.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, at REAL, frame BLOB)")
        self.row = b"x" * raw_row_bytes

    def commit(self) -> None:
        """Insert one row; it is on the disk when this returns."""
        self.db.execute("INSERT INTO event (at, frame) VALUES (?, ?)", (time.time(), self.row))

    async def contest(self, steps: int, step: Step) -> None:
        """Commit ``steps`` times, as a contestant."""
        for _ in range(steps):
            await step()
            self.commit()


def checkpointed_bytes(path: Path) -> int:
    """Return the size of a closed SQLite file after its log has been moved into it."""
    db = apsw.Connection(str(path))
    db.pragma("wal_checkpoint(TRUNCATE)")
    db.close()
    return path.stat().st_size


# --- words ----------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns line up."""
    lines = [list(head), *[list(row) for row in rows]]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    padded = [[cell.ljust(widths[place]) for place, cell in enumerate(line)] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)
