"""The real clock and the real source of randomness; tests pass others in their place."""

from __future__ import annotations

import random
import time
import uuid

__all__ = ["SystemClock", "SystemEntropy"]


class SystemClock:
    """The machine's clocks."""

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class SystemEntropy:
    """The machine's randomness."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return random.random()

    def token(self) -> str:
        """Return a fresh random id of 32 hex digits."""
        return uuid.uuid4().hex
