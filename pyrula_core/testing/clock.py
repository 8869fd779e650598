"""A clock that moves only when it is told to, and randomness that repeats.

Owns no real time: a test that uses these waits for nothing and gives the same result every time.
"""

from __future__ import annotations

import random

__all__ = ["ManualClock", "SeededEntropy"]


class ManualClock:
    """Stands still until it is moved.

    >>> clock = ManualClock(start=100.0)
    >>> clock.advance(2.5)
    >>> clock.time()
    102.5
    """

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._wall = start
        self._steady = start

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._steady

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass; raises ValueError for a negative number."""
        if seconds < 0:
            raise ValueError(f"seconds={seconds!r}: time passes forwards only; see jump()")
        self._wall += seconds
        self._steady += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or back, as an administrator would; no time passes."""
        self._wall += seconds


class SeededEntropy:
    """Draws the same numbers and tokens again for the same seed.

    >>> SeededEntropy(7).token() == SeededEntropy(7).token()
    True
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def random(self) -> float:
        """Draw a float in [0, 1)."""
        return self._random.random()

    def token(self) -> str:
        """Draw an id of 32 hex digits."""
        return f"{self._random.getrandbits(128):032x}"
