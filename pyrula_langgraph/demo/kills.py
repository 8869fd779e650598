"""When to kill: draws the moments from a seed and spreads them over the work that remains.

Pure but for its own random numbers: progress goes in, a verdict comes out. Must never kill.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

__all__ = ["KillPlan"]

events_per_ticket_guess: Final = 12
"""How long a journal is in the end, until one has ended and tells; too low only kills earlier."""

spread: Final = 1.2
"""How far a moment may lie beyond its even share of the work: more than 1, and safely below 2."""

hesitation_seconds_max: Final = 0.2
"""How long a drawn moment may lag behind the event it counts from: it falls into a step."""


class KillPlan:
    """Spreads ``count`` kills over the work, so that each strikes while some of it remains.

    The moments are drawn as parts of what remains, hence follow the work's pace. The same seed
    draws the same parts.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.done = 0
        self._random = random.Random(seed)
        self._due_at: int | None = None
        self._hesitation = 0.0
        self._strike_at: float | None = None

    @property
    def left(self) -> int:
        """How many kills are to come."""
        return self.count - self.done

    def begin(self, *, ended: Sequence[int], going: Sequence[int]) -> None:
        """Draw the next moment; both arguments are lengths of journals, counted in events."""
        typical = sum(ended) / len(ended) if ended else events_per_ticket_guess
        remaining = sum(max(0.0, typical - length) for length in going)
        share = self._random.random() * spread * remaining / (self.left + 1)
        self._due_at = sum(ended) + sum(going) + int(share)
        self._hesitation = self._random.random() * hesitation_seconds_max
        self._strike_at = None

    def due(self, *, events: int, now: float) -> bool:
        """Tell whether the moment has come; ``events`` is the length of all journals together."""
        if self.left <= 0 or self._due_at is None or events < self._due_at:
            return False
        if self._strike_at is None:
            self._strike_at = now + self._hesitation
        return now >= self._strike_at

    def struck(self) -> None:
        """Count a kill that happened."""
        self.done += 1
        self._due_at = None
