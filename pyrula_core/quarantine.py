"""Counts how often a run could not be replayed, within a window of time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pyrula_core.model import RunKey

__all__ = ["Quarantine"]


@dataclass(slots=True)
class Quarantine:
    """Failures by run; one that is older than ``window_s`` does not count any more."""

    tries_max: int
    window_s: float
    _failures: dict[RunKey, deque[float]] = field(default_factory=dict)

    def count(self, key: RunKey, now: float) -> int:
        """Count one more failure and return how many fall into the window."""
        times = self._failures.setdefault(key, deque(maxlen=self.tries_max + 1))
        times.append(now)
        while times[0] < now - self.window_s:
            times.popleft()
        return len(times)
