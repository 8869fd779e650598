"""Folds a journal into what is known of its run.

Owns the transition table and ``RunState``. Everything a store keeps beside a journal can be rebuilt
from here. Must never do IO, read a clock, or decode a user's value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyrula_core.errors import JournalError
from pyrula_core.events import TERMINAL, Event, EventType, Payload
from pyrula_core.model import RunKey, RunStatus

__all__ = ["NEXT_STATUS", "Question", "RunState", "fold", "open_children"]

# The status a run has after an event; an event that is not listed leaves it as it was.
# The docs' state diagram is drawn from this table.
NEXT_STATUS: Final[Mapping[EventType, RunStatus]] = {
    EventType.RUN_CREATED: RunStatus.QUEUED,
    EventType.RUN_CLAIMED: RunStatus.RUNNING,
    EventType.RUN_REQUEUED: RunStatus.QUEUED,
    EventType.RUN_COMPLETE: RunStatus.COMPLETE,
    EventType.RUN_ERROR: RunStatus.ERROR,
    EventType.RUN_CANCELLED: RunStatus.CANCELLED,
    EventType.RUN_CONTINUED: RunStatus.CONTINUED,
}

# Events that show the run getting somewhere: requeue budgets count from the last of them.
PROGRESS: Final = frozenset({EventType.STEP_DONE, EventType.UPDATE_HANDLED})


@dataclass(slots=True)
class Question:
    """One interrupt: what was asked, by which step, and what was answered."""

    id: str
    key: str
    opened_at: float
    asked: Payload | None = None
    answer: Payload | None = None
    answered: bool = False
    closed: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """True while a person is expected to answer."""
        return not self.answered and not self.closed


@dataclass(slots=True)
class RunState:
    """What a journal says of its run up to ``seq``."""

    seq: int = 0
    status: RunStatus = RunStatus.QUEUED
    created: Event | None = None
    ended: Event | None = None
    attempts: int = 0
    steps: int = 0
    requeues: dict[str, int] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    updated_at: float = 0.0

    @property
    def open_questions(self) -> list[Question]:
        """Questions that wait for a person, oldest first."""
        return [question for question in self.questions.values() if question.open]

    def apply(self, event: Event) -> None:
        """Take one more event; raises JournalError when it cannot follow."""
        self.check_follows(event)
        self.seq = event.seq
        self.updated_at = event.at
        self.status = NEXT_STATUS.get(event.type, self.status)
        if event.type in PROGRESS:
            self.steps += 1
            self.requeues.clear()
        elif event.type in TERMINAL:
            self.ended = event
        else:
            self.apply_other(event)

    def apply_other(self, event: Event) -> None:
        """Take an event that is neither progress nor an end."""
        match event.type:
            case EventType.RUN_CREATED:
                self.created = event
            case EventType.RUN_CLAIMED:
                self.attempts += 1
            case EventType.RUN_REQUEUED:
                reason = event.data["reason"]
                self.requeues[reason] = self.requeues.get(reason, 0) + 1
            case EventType.INTERRUPT_OPENED:
                self.open_question(event)
            case EventType.INTERRUPT_ANSWERED:
                self.answer_question(event)
            case EventType.INTERRUPT_CLOSED:
                self.close_question(event)
            case _:
                pass

    def check_follows(self, event: Event) -> None:
        """Refuse a gap, a second beginning, or anything after the end."""
        if event.seq != self.seq + 1:
            raise JournalError(f"event {event.seq} follows event {self.seq}: the journal has a gap")
        if (event.type is EventType.RUN_CREATED) != (event.seq == 1):
            raise JournalError(f"event {event.seq} is {event.type}: a journal begins once")
        if self.ended is not None:
            raise JournalError(f"event {event.seq} follows the end of the run at {self.ended.seq}")

    def open_question(self, event: Event) -> None:
        """Open a question, or open it again with the answer it had dropped."""
        self.questions[event.data["id"]] = Question(
            id=event.data["id"],
            key=event.data["key"],
            opened_at=event.at,
            asked=event.payload,
            fields=event.data,
        )

    def answer_question(self, event: Event) -> None:
        """Keep the first answer; a later one is only kept by the journal."""
        question = self.questions.get(event.data["id"])
        if question is not None and question.open:
            question.answered = True
            question.answer = event.payload

    def close_question(self, event: Event) -> None:
        """Close a question that nobody needs to answer any more."""
        question = self.questions.get(event.data["id"])
        if question is not None:
            question.closed = True


def open_children(events: Iterable[Event], *, policy: str) -> list[RunKey]:
    """Return the child runs with that parent-close policy whose end was not recorded."""
    found: dict[str, RunKey] = {}
    for event in events:
        if event.type is EventType.CHILD_STARTED and event.data.get("policy") == policy:
            found[event.data["key"]] = RunKey(event.data["name"], event.data["run_id"])
        elif event.type in (EventType.CHILD_DONE, EventType.CHILD_ERROR):
            found.pop(event.data["key"], None)
    return list(found.values())


def fold(events: Iterable[Event]) -> RunState:
    """Return what a journal says of its run; raises JournalError on a gap or a wrong order."""
    state = RunState()
    for event in events:
        state.apply(event)
    return state
