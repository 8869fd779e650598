"""What can go wrong with a store, when it is to go wrong, and how often it has.

Owns the numbering of durable writes: it counts them across all processes of a simulation, so that
``crash_after@3`` means the same whoever writes. Must never touch a store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = ["BEFORE", "Fault", "FaultKind", "Faults"]


class FaultKind(StrEnum):
    """The ways in which a durable write, or what surrounds it, can go wrong."""

    CRASH_BEFORE = "crash_before"
    """The process is killed; the write has not happened."""
    CRASH_AFTER = "crash_after"
    """The process is killed; the write has happened and nobody was told."""
    CRASH_TORN = "crash_torn"
    """The process is killed, and the write's last event is cut: a medium that is not atomic."""
    LOST = "lost"
    """The write has not happened; the caller learns only that the outcome is unknown."""
    APPLIED_UNKNOWN = "applied_unknown"
    """The write has happened; the caller learns only that the outcome is unknown."""
    DUPLICATE = "duplicate"
    """The write reaches the store twice, and subscribers are told twice."""
    DELAY = "delay"
    """The answer takes ``seconds``."""
    PAUSE = "pause"
    """The process stands still for ``seconds`` before it sees the answer: a zombie."""
    LEASE_STOLEN = "lease_stolen"
    """Somebody takes the run over just before the write, for ``seconds``."""
    CLOCK_JUMP = "clock_jump"
    """The process's wall clock jumps by ``seconds``; the store's does not."""
    UNAVAILABLE = "unavailable"
    """From this write on, the store answers nobody for ``seconds``."""
    ROLLED_BACK = "rolled_back"
    """Before the write, the store loses what was written last: its disk lied."""
    BIT_FLIP = "bit_flip"
    """The next time a journal is read, one bit of it is wrong."""
    STALE_NOTIFY = "stale_notify"
    """Subscribers are told before the write, and not after it."""
    CANCEL = "cancel"
    """What the process is driving is cancelled once the write is done."""


BEFORE: Final = frozenset(
    {
        FaultKind.CRASH_BEFORE,
        FaultKind.CRASH_TORN,
        FaultKind.LOST,
        FaultKind.DUPLICATE,
        FaultKind.LEASE_STOLEN,
        FaultKind.ROLLED_BACK,
        FaultKind.STALE_NOTIFY,
    }
)
"""Kinds that a claim cannot suffer: that it is a write is known only once it was granted."""

FINAL: Final = frozenset(
    {
        FaultKind.CRASH_BEFORE,
        FaultKind.CRASH_AFTER,
        FaultKind.CRASH_TORN,
        FaultKind.LOST,
        FaultKind.APPLIED_UNKNOWN,
        FaultKind.UNAVAILABLE,
    }
)
"""Kinds after which the caller gets no answer."""

SECONDS: Final[Mapping[FaultKind, float]] = {
    FaultKind.DELAY: 3.0,
    FaultKind.PAUSE: 60.0,
    FaultKind.LEASE_STOLEN: 2.0,
    FaultKind.CLOCK_JUMP: -3600.0,
    FaultKind.UNAVAILABLE: 120.0,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Strikes at one durable write, counted from 1; ``seconds`` None means the kind's usual ones.

    >>> Fault.parse("delay@4:2.5")
    Fault(kind=<FaultKind.DELAY: 'delay'>, write=4, seconds=2.5)
    >>> str(Fault.parse("crash_after@3"))
    'crash_after@3'
    """

    kind: FaultKind
    write: int
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Return what ``str`` of a fault stands for; raises ValueError for anything else."""
        kind, mark, place = text.strip().partition("@")
        number, _, seconds = place.partition(":")
        if not mark or not number.isdigit():
            raise ValueError(f"fault {text!r} is not understood: write kind@write, as lost@3")
        return cls(FaultKind(kind), int(number), float(seconds) if seconds else None)

    def __str__(self) -> str:
        seconds = "" if self.seconds is None else f":{self.seconds!r}"
        return f"{self.kind}@{self.write}{seconds}"

    @property
    def lasts(self) -> float:
        """How many seconds it takes, where that means anything."""
        return SECONDS.get(self.kind, 0.0) if self.seconds is None else self.seconds


@dataclass(slots=True)
class Faults:
    """The faults of one simulation: those that are scheduled, and those that a seed draws.

    ``rates`` holds, for each kind that may be drawn, its chance at every write; ``drawn_max`` is
    how many are drawn before the world heals. ``hits`` counts what has struck, ``struck`` lists
    it, and ``trace`` names every durable write in order.
    """

    scheduled: Iterable[Fault] = ()
    seed: int = 0
    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    drawn_max: int = 3
    hits: Counter[FaultKind] = field(default_factory=Counter)
    struck: list[Fault] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    _random: random.Random = field(init=False)
    _delays: random.Random = field(init=False)
    _at: dict[int, list[Fault]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        # Of its own, so that a case takes the same time when its faults are scheduled instead.
        self._delays = random.Random(self.seed)
        for fault in self.scheduled:
            self._at.setdefault(fault.write, []).append(fault)

    def plans(self, kind: FaultKind) -> bool:
        """Tell whether a kind can strike at all."""
        return kind in self.rates or any(f.kind is kind for fs in self._at.values() for f in fs)

    def at_write(self, label: str, *, granted: bool = False) -> list[Fault]:
        """Count one more durable write and return what is to go wrong with it.

        ``granted`` says that it is done already, as a claim is.
        """
        self.trace.append(label)
        number = len(self.trace)
        spared = BEFORE if granted else frozenset()
        found = [*self._at.get(number, ()), *self._drawn(number, spared)]
        # What ends the caller's part comes last: everything else has struck by then.
        return sorted(
            (fault for fault in found if fault.kind not in spared),
            key=lambda fault: fault.kind in FINAL,
        )

    def hit(self, fault: Fault) -> None:
        """Note that a fault has struck."""
        self.hits[fault.kind] += 1
        self.struck.append(fault)

    def random(self) -> float:
        """Draw a float in [0, 1), for what the seed decides besides the faults."""
        return self._delays.random()

    def _drawn(self, number: int, spared: Collection[FaultKind]) -> Iterable[Fault]:
        for kind, rate in self.rates.items():
            drawn = self._random.random() < rate and kind not in spared
            if drawn and self.drawn_max > 0:
                self.drawn_max -= 1
                yield Fault(kind, number)
