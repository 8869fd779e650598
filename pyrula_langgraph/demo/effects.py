"""What the order desk can do to the outside world, as values.

Owns the words of the ledger: a kind of effect, an effect, an entry. Must never do IO.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Effect", "EffectKind", "Entry"]


class EffectKind(StrEnum):
    """The kinds of effect; the first two only read, the others change something."""

    LOOKUP = "lookup"
    TRACKING = "tracking"
    REFUND = "refund"
    REPLACEMENT = "replacement"
    ADDRESS = "address"
    REPLY = "reply"


@dataclass(frozen=True, slots=True)
class Effect:
    """One act for one ticket; ``key`` is its idempotency key, stable over every retry."""

    ticket: str
    kind: EffectKind
    key: str
    order_id: str = ""
    amount_cents: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt at an effect, as the ledger holds it.

    ``effective`` is True for the first attempt with this kind and key; every later one was
    recognised by its key and changed nothing.
    """

    effect: Effect
    effective: bool
    pid: int
    at: float
