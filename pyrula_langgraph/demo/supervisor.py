"""Starts the worker, kills it, starts it again, and answers the desk's questions meanwhile.

Owns the worker processes: no other process is ever signalled. It learns of the work from the store
alone, as any other observer would. Must never drive a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyrula_core import Client, InterruptConflictError, InterruptView, RunFinishedError
from pyrula_core.model import RunKey
from pyrula_langgraph.demo.approvals import answer_by_rule
from pyrula_langgraph.demo.board import Board, Case, State, names
from pyrula_langgraph.demo.desk import open_desk
from pyrula_langgraph.demo.kills import KillPlan
from pyrula_langgraph.demo.site import NAME, Site
from pyrula_langgraph.demo.worker import run_worker
from pyrula_langgraph.graph import DurableGraph

__all__ = ["Screen", "Supervisor", "WorkerFailed"]

look_every_seconds: Final = 0.05
person_thinks_seconds: Final = 0.8
leave_seconds_max: Final = 5.0
still_seconds_max: Final = 120.0
own_failures_max: Final = 3
log_lines_shown: Final = 12

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pyrula_langgraph.demo.worker"])


class WorkerFailed(Exception):
    """The worker ended by itself again and again, or came to a standstill; says what it wrote."""


class Screen(Protocol):
    """Where the supervisor shows what happens."""

    def show(self, board: Board) -> None:
        """Show how things stand."""

    def note(self, board: Board, text: str) -> None:
        """Tell of one thing that happened."""


class Worker:
    """One worker process, forked from a server that has the libraries imported already.

    A fresh interpreter would spend most of the demo on imports.
    """

    def __init__(self, site: Site) -> None:
        self._process = FORKS.Process(target=run_worker, args=(str(site.folder),))
        self._process.start()
        self.pid = self._process.pid or 0
        self.working = False

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it runs."""
        return self._process.exitcode

    def kill(self) -> bool:
        """Kill it as a power cut would; False when it had ended by itself just before."""
        self._signal(signal.SIGKILL)
        self._process.join()
        return self.exit_code == -signal.SIGKILL

    def stop(self) -> None:
        """Ask it to hand its runs back and end; kill it when it does not."""
        self._signal(signal.SIGTERM)
        self._process.join(leave_seconds_max)
        if self.exit_code is None:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class Supervisor:
    """Sees a demo through to its end; ``board`` is what it has seen."""

    site: Site
    plan: KillPlan
    screen: Screen
    board: Board = field(init=False)
    client: Client = field(init=False)
    _bot: DurableGraph = field(init=False)
    _worker: Worker | None = None
    _failures: int = 0
    _moved_at: float = 0.0

    def __post_init__(self) -> None:
        tickets = self.site.tickets()
        cases = [Case(ticket, self.site.run_id(ticket.ticket)) for ticket in tickets]
        self.board = Board(cases, kills_wanted=self.plan.count)
        self._bot = open_desk(self.site)
        self.client = self._bot.client

    async def run(self) -> None:
        """Return when every run has ended; raises WorkerFailed when that will not happen."""
        await self._take_in()
        self._moved_at = time.monotonic()
        try:
            while self.board.going():
                await self._tend()
                await self._look()
                await self._answer()
                self._strike()
                self.screen.show(self.board)
                await asyncio.sleep(look_every_seconds)
            self.screen.show(self.board)
        finally:
            if self._worker is not None:
                self._worker.stop()

    async def _take_in(self) -> None:
        """Record a run for every ticket; those that are recorded already stay as they are."""
        for case in self.board.cases:
            question = {"messages": [{"role": "user", "content": case.ticket.text()}]}
            await self._bot.start(question, thread_id=case.run_id, run_id=case.run_id)
            case.row = await self.client.head(RunKey(NAME, case.run_id))
        self.board.hand_over()
        self.screen.show(self.board)

    async def _look(self) -> None:
        """Read where the runs stand."""
        before = self.board.events
        for case in self.board.going():
            case.row = await self.client.head(RunKey(NAME, case.run_id))
            if case.ended:
                self.screen.note(self.board, f"{case.ticket.ticket} is {case.state}")
        if self.board.events != before:
            self._moved_at = time.monotonic()
        elif time.monotonic() - self._moved_at > still_seconds_max:
            raise WorkerFailed(self._complaint("nothing has happened for two minutes"))

    # --- the worker -----------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Start a worker where there is none; find out when one has ended by itself."""
        if self._worker is not None and self._worker.exit_code is not None:
            await self._look()
            if not self.board.going():
                return
            self._failures += 1
            self.screen.note(
                self.board, f"the worker ended by itself with exit code {self._worker.exit_code}"
            )
            self._worker = None
            if self._failures > own_failures_max:
                raise WorkerFailed(self._complaint("the worker ends by itself again and again"))
        if self._worker is None:
            self.board.hand_over()
            self._worker = Worker(self.site)
            self.board.workers += 1
            self.board.pid = self._worker.pid
            self.screen.note(
                self.board, f"worker {self.board.workers} starts (pid {self._worker.pid})"
            )

    def _strike(self) -> None:
        """Kill the worker when its moment has come and it is in the middle of something."""
        held = self.board.in_state(State.WORKING)
        if self._worker is None or not held:
            return
        if not self._worker.working:
            self._worker.working = True
            going = [case.events for case in self.board.going()]
            ended = [case.events for case in self.board.cases if case.ended]
            self.plan.begin(ended=ended, going=going)
        if not self.plan.due(events=self.board.events, now=time.monotonic()):
            return
        if not self._worker.kill():
            return
        self._worker = None
        self.plan.struck()
        self.board.kills = self.plan.done
        for case in held:
            case.kills += 1
        self.screen.note(
            self.board,
            f"kill -9 {self.board.pid} ({self.board.kills} of {self.plan.count}) "
            f"in the middle of {names(held)}",
        )

    def _complaint(self, what: str) -> str:
        """Say what went wrong and show the end of the worker's log."""
        log = self.site.log_file
        written = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
        return "\n".join([f"{what}; its log {log} ends:", *written[-log_lines_shown:]])

    # --- the person -----------------------------------------------------------------------------

    async def _answer(self) -> None:
        """Answer the questions that have stood for a moment, whether a worker is alive or not."""
        for case in self.board.in_state(State.ASKING):
            view = await self.client.describe(NAME, case.run_id)
            for question in view.interrupts:
                if time.time() - question.opened_at >= person_thinks_seconds:
                    # Somebody at another terminal may have been faster: the first answer counts.
                    with contextlib.suppress(InterruptConflictError, RunFinishedError):
                        await self._answer_one(case, question)

    async def _answer_one(self, case: Case, question: InterruptView) -> None:
        answer = answer_by_rule(question.value)
        await self.client.answer(NAME, case.run_id, question.id, answer)
        case.asked += 1
        said = "yes" if answer["approved"] else "no"
        euros = question.value["amount_cents"] / 100
        self.screen.note(
            self.board, f"{case.ticket.ticket} asks: refund {euros:.2f} EUR? A person says {said}"
        )
