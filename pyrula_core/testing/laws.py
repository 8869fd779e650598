"""What the laws of a store are written with: a bench to work at, and a report of what held.

Owns how a check opens, reopens and asks a store. Must never depend on pytest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyrula_core.codec import decode, encode
from pyrula_core.events import Event, EventType, Payload
from pyrula_core.model import RunKey, RunKind, RunRow, RunStatus
from pyrula_core.ports import (
    Append,
    Appended,
    Claim,
    Claimed,
    Clock,
    Create,
    Created,
    Head,
    Op,
    Patch,
    ReadEvents,
    Records,
    Store,
)
from pyrula_core.testing.clock import ManualClock

__all__ = [
    "Bench",
    "Check",
    "Finding",
    "LawBook",
    "LawBroken",
    "Report",
    "Storage",
    "append_of",
    "bench_on",
    "body",
    "claim_of",
    "label",
    "require",
    "require_equal",
]

R = TypeVar("R")


class LawBroken(Exception):
    """A store did not do what a law says."""


class Storage(Protocol):
    """What a store stores in: it outlives the stores that are opened on it."""

    def open(self, *, clock: Clock, namespace: str) -> Store:
        """Open a store on this storage, again after an earlier one was closed."""
        ...


def require(condition: bool, why: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise LawBroken unless ``condition`` holds."""
    if not condition:
        raise LawBroken(why)


def require_equal(found: object, expected: object, *, why: str) -> None:
    """Raise LawBroken unless ``found`` equals ``expected``."""
    require(found == expected, f"{why}: expected {expected!r}, found {found!r}")


def body(name: str, *, size: int = 8) -> bytes:
    """Return an event's body that can be told by ``name``."""
    payload = Payload("json/1", b'"' + b"x" * size + b'"')
    return encode(Event(EventType.STEP_DONE, {"key": name}, payload, at=1.0))


def label(frame: bytes, *, key: RunKey, seq: int) -> str:
    """Return the name that was given to ``body``, checking the frame's place on the way."""
    return str(decode(frame, key=key, seq=seq).data["key"])


class Bench:
    """Fresh storage, a clock, a store opened on it, and the usual ways to ask it.

    ``store`` is the store in use; every store opened here is closed by ``close``.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.clock = ManualClock()
        self.opened: list[Store] = []
        self.store = self.open()

    def open(self, *, namespace: str = "default") -> Store:
        """Open one more store on the same storage."""
        store = self.storage.open(clock=self.clock, namespace=namespace)
        self.opened.append(store)
        return store

    def reopen(self) -> None:
        """Close every store and open the storage again, as a new process would."""
        self.close()
        self.store = self.open()

    def close(self) -> None:
        """Close every store that was opened here."""
        while self.opened:
            self.opened.pop().close()

    async def ask(self, op: Op[R]) -> R:
        """Do an operation on the store in use."""
        return await self.store.call(op)

    def start(self, op: Op[R]) -> Future[R]:
        """Start an operation on the store in use."""
        return self.store.submit(op)

    async def create(
        self,
        run_id: str = "r",
        *,
        name: str = "wf",
        version: str = "1",
        partition: str = "p",
        idempotency_key: str | None = None,
    ) -> RunKey:
        """Create a queued run with one event and return its key."""
        key = RunKey(name, run_id)
        op = Create(key, RunKind.WORKFLOW, version, partition, (body("created"),), idempotency_key)
        answer = await self.ask(op)
        require(isinstance(answer, Created), f"a new run is Created, not {answer!r}")
        return key

    async def claim(self, key: RunKey, *, owner: str = "a", ttl: float = 30.0) -> RunRow:
        """Claim a run and return its row."""
        answer = await self.ask(claim_of(key, owner=owner, ttl=ttl))
        if not isinstance(answer, Claimed):
            raise LawBroken(f"{key} is claimable, but the claim answered {answer!r}")
        return answer.row

    async def running(self, run_id: str = "r", *, ttl: float = 30.0) -> RunRow:
        """Create and claim a run and return its row."""
        return await self.claim(await self.create(run_id), ttl=ttl)

    async def append(
        self,
        row: RunRow,
        *names: str,
        patch: Patch | None = None,
        records: Records = (),
    ) -> RunRow:
        """Append events behind ``row``, which must succeed, and return the run's new row."""
        op = append_of(row, *names, patch=patch, records=records)
        answer = await self.ask(op)
        require(isinstance(answer, Appended), f"{op!r} is to be Appended, not {answer!r}")
        return await self.row(row.key)

    async def end(self, row: RunRow, status: RunStatus = RunStatus.COMPLETE) -> RunRow:
        """End a run and return its row."""
        return await self.append(row, "end", patch=Patch(status=status))

    async def row(self, key: RunKey) -> RunRow:
        """Return a run's row, which must be there."""
        row = await self.ask(Head(key))
        if row is None:
            raise LawBroken(f"run {key} is missing")
        return row

    async def names(self, key: RunKey) -> list[str]:
        """Return the names of a run's events, checking that they are numbered without a gap."""
        frames = await self.ask(ReadEvents(key))
        places = [seq for seq, _ in frames]
        require_equal(places, list(range(1, len(places) + 1)), why=f"places of {key}")
        return [label(frame, key=key, seq=seq) for seq, frame in frames]


def claim_of(
    key: RunKey | None,
    *,
    owner: str = "a",
    ttl: float = 30.0,
    serves: Iterable[tuple[str, str]] = (),
) -> Claim:
    """Return a claim whose events are named ``claimed`` and ``orphaned``."""
    return Claim(owner, ttl, body("claimed"), body("orphaned"), key, frozenset(serves))


def append_of(
    row: RunRow, *names: str, patch: Patch | None = None, records: Records = ()
) -> Append:
    """Return an append of named events behind ``row``."""
    events = tuple(body(name) for name in names)
    return Append(row.key, row.epoch, row.seq, events, patch or Patch(), records)


# --- checks and their report ----------------------------------------------------------------------

Attempt = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence of a law, and how it is tried."""

    law: str
    name: str
    sentence: str
    attempt: Attempt


class LawBook:
    """Collects checks in the order they are written."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def check(self, law: str, sentence: str) -> Callable[[Attempt], Attempt]:
        """Enter a function as a check of ``law`` that says ``sentence``."""

        def enter(attempt: Attempt) -> Attempt:
            name = getattr(attempt, "__name__", sentence)
            self.checks.append(Check(law, name, sentence, attempt))
            return attempt

        return enter


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one check: ``error`` is None when the law held."""

    check: Check
    error: Exception | None = None

    def __str__(self) -> str:
        mark = "pass" if self.error is None else "FAIL"
        why = "" if self.error is None else f": {type(self.error).__name__}: {self.error}"
        return f"{mark}  {self.check.law:<4} {self.check.sentence}{why}"


@dataclass(frozen=True, slots=True)
class Report:
    """What came of every check, in order; ``str`` of it is the table to read."""

    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings whose law did not hold."""
        return tuple(finding for finding in self.findings if finding.error is not None)

    def raise_for_failures(self) -> None:
        """Raise an ExceptionGroup of every failure's error, when there is any."""
        errors = [finding.error for finding in self.failures if finding.error is not None]
        if errors:
            raise ExceptionGroup(f"{len(errors)} laws of the store do not hold:\n{self}", errors)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        held = len(self.findings) - len(self.failures)
        return "\n".join([*map(str, self.findings), f"{held} of {len(self.findings)} held"])


@contextlib.contextmanager
def bench_on(storage: Storage) -> Iterator[Bench]:
    """Give a bench on fresh storage and close it afterwards."""
    bench = Bench(storage)
    try:
        yield bench
    finally:
        bench.close()
