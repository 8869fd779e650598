"""The words around the show: what is about to happen, what was proven, what to try next.

Owns the sentences and how the proof is laid out. Must never start or stop anything.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyrula_langgraph.demo.board import Board
from pyrula_langgraph.demo.proof import Check, Counts, Proof
from pyrula_langgraph.demo.site import Site

__all__ = ["Narration"]

violations_shown_max: Final = 5
paragraph_columns_max: Final = 88


class Narration:
    """Tells a person of a demo, on stdout."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)

    @property
    def width(self) -> int:
        """How wide a paragraph may be and still be read with ease."""
        return min(self.console.width, paragraph_columns_max)

    def say(self, text: str = "", style: str = "") -> None:
        """Print a line that no terminal width breaks, so that commands can be copied."""
        self.console.print(Text(text, style), soft_wrap=True)

    def begin(self, site: Site, *, kills: int, seed: int) -> None:
        """Say what is about to happen."""
        count = len(site.tickets())
        tickets = "One ticket" if count == 1 else f"{count} tickets"
        fate = f"killed (kill -9) {times(kills)}" if kills else "left alone"
        self.say(f"{tickets} for an order desk, and a worker that is {fate}.", "bold")
        self.say(f"journal  {without_password(site.store)}", "dim")
        if kills:
            self.say(f"seed     {seed}", "dim")
        self.say()

    def stopped(self, *, kills: int) -> None:
        """Say how to go on after Ctrl-C."""
        self.say()
        self.say("Stopped, and the worker with it. Nothing that was recorded is lost; go on with:")
        self.say(f"  {program()} demo --keep" + ("" if kills else " --no-kill"), "bold")

    # --- the proof ------------------------------------------------------------------------------

    def prove(self, proof: Proof, board: Board) -> None:
        """Print the proof: a table of claims, then what was attempted beside what came of it."""
        self.say()
        table = plain_table("", "proof, from the journal and the ledger", "evidence")
        for check in proof.checks:
            self._add(table, check)
        self.console.print(table)
        self.say()
        self.console.print(attempts_table(proof.counts, board))
        self.say()
        self.console.print(Text(" ".join(sentences(proof.counts, board))), width=self.width)

    def _add(self, table: Table, check: Check) -> None:
        if not check.violations:
            table.add_row(Text("yes", "green"), check.claim, Text(check.figure, "dim"))
            return
        table.add_row(Text("NO", "bold red"), Text(check.claim, "bold red"), check.figure)
        for text in check.violations[:violations_shown_max]:
            table.add_row("", Text(text, "red"), "")
        hidden = len(check.violations) - violations_shown_max
        if hidden > 0:
            table.add_row("", Text(f"and {hidden} more", "red"), "")

    # --- what is next ---------------------------------------------------------------------------

    def suggest(self, site: Site, board: Board) -> None:
        """Print commands that work from here."""
        pyrula, store = program(), f"--store {without_password(site.store)}"
        worst = max(board.cases, key=lambda case: (case.kills, case.attempts))
        lost = f"one whose worker was killed {times(worst.kills)}" if worst.kills else "one of them"
        again, fate = ("demo --kills 25", "more kills") if board.kills else ("demo", "kill -9")
        self.say()
        self.say("Try next:", "bold")
        for command, meaning in (
            (f"{pyrula} runs list {store}", "all runs in the journal"),
            (f"{pyrula} runs show {worst.run_id} {store}", f"{lost}, event by event"),
            (f"{pyrula} {again}", f"a fresh start, with {fate}; it replaces this demo"),
            (f"{pyrula} demo --tickets {site.folder}/tickets.jsonl", "tickets that you may edit"),
        ):
            self.say(f"  {command}")
            self.say(f"      {meaning}", "dim")


def plain_table(*titles: str) -> Table:
    """Return an empty table under these titles."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for title in titles:
        table.add_column(title)
    return table


def attempts_table(counts: Counts, board: Board) -> Table:
    """Set what was attempted beside what came of it."""
    table = plain_table("at least once", "tried", "counted", "the difference")
    for column in table.columns[1:3]:
        column.justify = "right"
    killed = "cut off by a kill, or " if board.kills or counts.lost_owners else ""
    for what, tried, counted, reason in (
        ("steps", counts.executions, counts.steps, f"{killed}stopped to ask a person"),
        ("effects", counts.attempts, counts.effects, "known by their key, so harmless"),
    ):
        difference = tried - counted
        words = f"{difference} {reason}" if difference else "none"
        table.add_row(what, str(tried), str(counted), words)
    return table


def sentences(counts: Counts, board: Board) -> Iterator[str]:
    """Tell what the figures mean, and what was not reached."""
    if board.kills < board.kills_wanted:
        yield f"Only {board.kills} of {board.kills_wanted} kills: the work was done before."
    if counts.lost_owners:
        after = f" after {counted(board.kills, 'kill')}" if board.kills else ""
        yield (
            f"Runs were taken over from a dead worker {times(counts.lost_owners)}{after}: "
            "a worker holds several at once, and the next one goes on with each."
        )
    if counts.executions > counts.steps:
        cut = (
            "a step that ran at the moment of a kill ran again, and " if counts.lost_owners else ""
        )
        yield (
            f"{counts.executions} executions for {counts.steps} recorded steps: {cut}a tool that "
            "asked a person runs again with the answer; nothing that was recorded ran again."
        )
    yield (
        "A step is tried at least once and recorded once. Its effect happens once because the "
        "ledger honours the idempotency key that the engine gives it, the same on every try."
    )


def counted(count: int, thing: str) -> str:
    """Write a number of things."""
    return f"{count} {thing}" + ("" if count == 1 else "s")


def times(count: int) -> str:
    """Write a number of times."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def without_password(url: str) -> str:
    """Return a store's URL as it may be shown."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def program() -> str:
    """Return what to type for ``pyrula`` in this shell."""
    started = Path(sys.argv[0])
    if started.name != "pyrula" or not started.exists():
        return "pyrula"
    checkout = (Path(sys.prefix).parent / "run.py").exists()
    if shutil.which("pyrula") == str(started) and not checkout:
        return "pyrula"
    # run.py puts its own environment on the path, which the user's shell does not have.
    near = os.path.relpath(started)
    return str(started) if near.startswith("..") else near
