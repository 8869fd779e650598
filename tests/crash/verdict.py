"""Judges a story that was killed: from the journal, the effects and what its lives report.

Pure: takes what was seen, returns complaints in words; none means that every promise held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.crash.effects import Effect
from tests.crash.evidence import Evidence
from tests.crash.lives import Life, Story

ENDS = {"run:complete", "run:error", "run:cancelled", "run:continued"}
OPEN = {"queued", "running", "waiting", "interrupted"}


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What the story comes to when nobody kills it."""

    outcome: Any
    journal: Evidence
    effects: Sequence[Effect]
    writes: int


def complaints(
    story: Story, lives: Sequence[Life], effects: Sequence[Effect], reference: Undisturbed
) -> Iterator[str]:
    """Say every way in which the lives differ from what was promised."""
    last = lives[-1]
    if last.left is None:
        yield f"life {len(lives)} ended with signal {last.signal}, code {last.code}:\n{last.said}"
        return
    yield from of_the_journal(lives, last.left)
    yield from of_the_effects(story, lives, effects, reference)
    yield from of_the_steps(last.left, reference)
    expected = story.expected(last.left, reference.outcome)
    if last.outcome != expected:
        yield f"the outcome differs\n  expected {expected}\n  but got  {last.outcome}"


def of_the_journal(lives: Sequence[Life], left: Evidence) -> Iterator[str]:
    """The journal only grows, has no gaps, and row and file agree with it."""
    for number, seen in enumerate([*(life.found for life in lives), left]):
        if seen.integrity != "ok":
            yield f"after {number} lives the file is damaged: {seen.integrity}"
        if seen.entries != left.entries[: len(seen.entries)]:
            yield f"after {number} lives the journal held what it no longer holds"
        if [entry.seq for entry in seen.entries] != list(range(1, seen.seq + 1)):
            yield f"after {number} lives the row says seq {seen.seq}: {seen.entries}"
        yield from of_the_status(number, seen)
    if left.status != "complete":
        yield f"the run ended as {left.status}"


def of_the_status(number: int, seen: Evidence) -> Iterator[str]:
    """A row's status says what the journal says."""
    if not seen.entries:
        return
    ended = seen.entries[-1].type in ENDS
    if ended != (seen.status not in OPEN):
        yield f"after {number} lives the status is {seen.status} behind {seen.entries[-1]}"
    if seen.status == "running" and seen.owner is None:
        yield f"after {number} lives the run is running and nobody owns it"
    asked = set(seen.keys_of("interrupt:opened"))
    if seen.status == "interrupted" and not asked:
        yield f"after {number} lives the run is interrupted and asks nothing"


def of_the_effects(
    story: Story, lives: Sequence[Life], effects: Sequence[Effect], reference: Undisturbed
) -> Iterator[str]:
    """What was recorded never runs again; what was not runs once more for each kill at most.

    A call that is made at most once does not even do that.
    """
    order = {life.pid: number for number, life in enumerate(lives)}
    for number, life in enumerate(lives):
        recorded = set(life.found.recorded)
        for effect in effects:
            if effect.key in recorded and order[effect.pid] >= number:
                yield f"{effect.key} was recorded and ran again in life {order[effect.pid] + 1}"
    kills = sum(life.killed for life in lives)
    for key, count in Counter(effect.key for effect in effects).items():
        if count > (1 if key in story.unsure else 1 + kills):
            yield f"{key} ran {count} times with {kills} kills"
    ran = {effect.key for effect in effects} | story.unsure
    should = {effect.key for effect in reference.effects} | story.unsure
    if ran != should:
        yield f"other steps ran: missing {should - ran}, unknown {ran - should}"


def of_the_steps(left: Evidence, reference: Undisturbed) -> Iterator[str]:
    """Every step has one outcome, every question was asked once and answered once."""
    for types in (("step:done", "step:error"), ("interrupt:opened",), ("timer:fired",)):
        found, should = Counter(left.keys_of(*types)), Counter(reference.journal.keys_of(*types))
        if found != should:
            extra, missing = found - should, should - found
            yield f"{types[0]}: too many {dict(extra)}, missing {dict(missing)}"
    answered = left.keys_of("interrupt:answered")
    if len(answered) != len(set(answered)):
        yield f"a question was answered twice: {answered}"
