"""What the engine takes from its surroundings besides a store: time and chance.

Passed in, never reached for, so that tests and simulations can bring their own.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock", "Entropy"]


class Clock(Protocol):
    """Where times come from."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class Entropy(Protocol):
    """Where randomness and ids come from."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def token(self) -> str:
        """Return a fresh random id of 32 hex digits."""
        ...
