"""What the supervisor knows of the work, as values that a screen can show.

Owns the words for a ticket's state. Pure: rows of the store go in, lines of a table come out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pyrula_core.model import RunRow, RunStatus
from pyrula_langgraph.demo.tickets import Ticket

__all__ = ["Board", "Case", "State", "names"]


class State(StrEnum):
    """Where a ticket stands, as the table says it."""

    WAITING = "waiting"
    WORKING = "working"
    CUT_OFF = "cut off"
    ASKING = "asks"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"


STATES = {
    RunStatus.QUEUED: State.WAITING,
    RunStatus.WAITING: State.WAITING,
    RunStatus.INTERRUPTED: State.ASKING,
    RunStatus.PAUSED: State.PAUSED,
    RunStatus.COMPLETE: State.DONE,
    RunStatus.ERROR: State.FAILED,
    RunStatus.CANCELLED: State.FAILED,
    RunStatus.CONTINUED: State.FAILED,
}


@dataclass(slots=True)
class Case:
    """A ticket and its run.

    ``kills`` counts the workers that were killed while they worked on it; ``taken_over`` is the
    run's epoch when the present worker was started: a higher one is the present worker's. ``asked``
    counts the questions that a person has answered for it.
    """

    ticket: Ticket
    run_id: str
    row: RunRow | None = None
    kills: int = 0
    taken_over: int = 0
    asked: int = 0

    @property
    def state(self) -> State:
        """Where the ticket stands."""
        if self.row is None:
            return State.WAITING
        if self.row.status is RunStatus.RUNNING:
            return State.WORKING if self.row.epoch > self.taken_over else State.CUT_OFF
        return STATES[self.row.shown_status]

    @property
    def ended(self) -> bool:
        """True when nothing is left to do for it."""
        return self.row is not None and self.row.status.ended

    @property
    def events(self) -> int:
        """How long its journal is."""
        return self.row.seq if self.row else 0

    @property
    def attempts(self) -> int:
        """How often a worker has taken it up."""
        return self.row.epoch if self.row else 0


@dataclass(slots=True)
class Board:
    """All cases, and how far the killing is."""

    cases: list[Case]
    kills_wanted: int
    kills: int = 0
    workers: int = 0
    pid: int | None = None

    def going(self) -> list[Case]:
        """Return the cases that have not ended."""
        return [case for case in self.cases if not case.ended]

    def in_state(self, state: State) -> list[Case]:
        """Return the cases in one state."""
        return [case for case in self.cases if case.state is state]

    def hand_over(self) -> None:
        """Let everything that runs now count as cut off: its worker is gone."""
        for case in self.cases:
            case.taken_over = case.attempts

    @property
    def events(self) -> int:
        """The length of all journals together."""
        return sum(case.events for case in self.cases)


def names(cases: Iterable[Case]) -> str:
    """List tickets by name."""
    return ", ".join(case.ticket.ticket for case in cases)
