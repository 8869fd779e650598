"""Shows the work: live on a terminal, as plain lines everywhere else.

Owns the layout. Must never ask the store anything, nor decide what happens.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pyrula_langgraph.demo.board import Board, Case, State

__all__ = ["LiveScreen", "PlainScreen", "screen_on"]

STYLES: Final = {
    State.WAITING: "dim",
    State.WORKING: "bold cyan",
    State.CUT_OFF: "bold red",
    State.ASKING: "bold yellow",
    State.PAUSED: "yellow",
    State.DONE: "green",
    State.FAILED: "bold red",
}
URGENCY: Final = (State.CUT_OFF, State.WORKING, State.ASKING, State.FAILED, State.PAUSED)
"""What stays on the screen where there is no room for everything."""

wide_columns_min: Final = 76
notes_shown: Final = 3
lines_around: Final = 5 + notes_shown
frames_per_second: Final = 8


@contextmanager
def screen_on(console: Console) -> Iterator[LiveScreen | PlainScreen]:
    """Give the screen that fits: live where somebody watches, lines where a file is written."""
    if not console.is_terminal:
        yield PlainScreen(console)
        return
    with Live(console=console, refresh_per_second=frames_per_second) as live:
        yield LiveScreen(live)


class PlainScreen:
    """One line for each thing that happens, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def show(self, board: Board) -> None:
        """Do nothing: lines tell of changes only."""

    def note(self, board: Board, text: str) -> None:
        """Write a line."""
        done = len(board.in_state(State.DONE))
        line = f"{time.monotonic() - self._began:6.1f} s  {done}/{len(board.cases)} done  {text}"
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)


class LiveScreen:
    """A progress bar, a table of the tickets and the last notes, redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._began = time.monotonic()
        self._notes: deque[str] = deque(maxlen=notes_shown)

    def show(self, board: Board) -> None:
        """Draw anew."""
        console, seconds = self._live.console, time.monotonic() - self._began
        rows_max = max(4, console.height - lines_around)
        self._live.update(
            Group(
                head(board, seconds),
                Text(),
                tickets_table(board, console.width, rows_max),
                Text(),
                *(Text(note, "dim", no_wrap=True, overflow="ellipsis") for note in self._notes),
            )
        )

    def note(self, board: Board, text: str) -> None:
        """Keep a line for the next drawing."""
        del board
        self._notes.append(f"{time.monotonic() - self._began:5.1f} s  {text}")


# --- layout ---------------------------------------------------------------------------------------


def head(board: Board, seconds: float) -> RenderableType:
    """Return the line with the progress bar, the kills and the worker."""
    done = len(board.in_state(State.DONE))
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    for _ in range(3):
        line.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(len(board.cases), done, complete_style="green", finished_style="green")
    kills = Text.assemble("kills ", (f"{board.kills} of {board.kills_wanted}", "bold red"))
    worker = Text(f"worker {board.workers}")
    tickets = Text(f"{done:>2} of {len(board.cases)} tickets")
    line.add_row(tickets, bar, kills, worker, Text(f"{seconds:4.0f} s", "dim"))
    return line


def tickets_table(board: Board, width: int, rows_max: int) -> RenderableType:
    """Return the cases in one table, or in two beside each other where they fit."""
    halves = 2 if width >= wide_columns_min else 1
    shown = most_urgent(board.cases, rows_max * halves)
    rows = -(-len(shown) // halves)
    grid = Table.grid(padding=(0, 3), expand=True)
    parts = [shown[start : start + rows] for start in range(0, len(shown), rows)]
    for _ in parts:
        grid.add_column(ratio=1)
    grid.add_row(*(half_table(part) for part in parts))
    hidden = len(board.cases) - len(shown)
    if not hidden:
        return grid
    return Group(grid, Text(f"and {hidden} more", "dim"))


def most_urgent(cases: Sequence[Case], count: int) -> list[Case]:
    """Choose the cases that fit, those in motion first, and keep them in order."""
    if len(cases) <= count:
        return list(cases)
    ranked = sorted(range(len(cases)), key=lambda place: (rank(cases[place]), place))
    return [cases[place] for place in sorted(ranked[:count])]


def rank(case: Case) -> int:
    """Return how early a case gets a place."""
    if case.state in URGENCY:
        return 0
    return 1 if case.state is State.WAITING else 2


def half_table(cases: Sequence[Case]) -> Table:
    """Return some cases as a table."""
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("ticket", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("status", no_wrap=True, min_width=7)
    table.add_column("asked", justify="right")
    table.add_column("kills", justify="right")
    for case in cases:
        table.add_row(
            case.ticket.ticket,
            Text(case.ticket.subject, "dim"),
            Text(case.state, STYLES[case.state]),
            str(case.asked) if case.asked else "",
            Text(str(case.kills), "red") if case.kills else "",
        )
    return table
