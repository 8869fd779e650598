"""A store that goes wrong where it is told to, in front of one that does not.

Owns the way of an operation to the inner store and of its answer back: what is lost, repeated,
late or damaged in between. Must never change what the inner store does: with no fault planned it
behaves exactly as that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast

from pyrula_core.codec import encode
from pyrula_core.errors import StoreUnavailable
from pyrula_core.events import Event, EventType
from pyrula_core.model import Durability, RunKey
from pyrula_core.ports import (
    Append,
    Claim,
    Claimed,
    Create,
    DeleteRun,
    Frame,
    Head,
    Op,
    Patch,
    Post,
    ReadEvents,
    Store,
    WriteRecords,
)
from pyrula_core.stores.front import Listeners
from pyrula_core.stores.rules import changed_run
from pyrula_core.testing.faults import Fault, FaultKind, Faults
from pyrula_core.testing.rewinding import Rewinder
from pyrula_core.testing.sim_guard import outside
from pyrula_core.testing.sim_process import SimProcess

__all__ = ["FaultyStore", "Medium", "SimulatedCrash", "Watcher"]

R = TypeVar("R")

WRITES: Final = (Create, Post, WriteRecords, DeleteRun)
REPEATABLE: Final = (Append, Create, WriteRecords, DeleteRun)


STOLEN: Final = encode(Event(EventType.RUN_CLAIMED, {"owner": "thief"}, at=1.0))
LAPSED: Final = encode(Event(EventType.RUN_REQUEUED, {"reason": "owner_gone"}, at=1.0))


class SimulatedCrash(BaseException):
    """Stands for the death of the process where there is no simulated one to kill."""


class Watcher(Protocol):
    """Is told of every operation: when the store has done it, and when its caller learns of it."""

    def applied(self, op: Op[Any], answer: object, process: SimProcess | None, /) -> None:
        """Take note of an operation that was done."""
        ...

    def answered(self, op: Op[Any], answer: object, process: SimProcess | None, /) -> None:
        """Take note of an answer that reaches the caller."""
        ...


class Medium:
    """What all views of one faulty store share: the inner store, the faults, the subscribers."""

    def __init__(self, inner: Store, faults: Faults, *, latency: float = 0.0) -> None:
        self.inner = inner
        self.faults = faults
        self.latency = latency
        self.listeners = Listeners()
        self.watchers: list[Watcher] = []
        self.tells_all = False
        self.torn: set[tuple[RunKey, int]] = set()
        self.flips = 0
        self.outage_until = float("-inf")
        self.rewinder = Rewinder(inner) if faults.plans(FaultKind.ROLLED_BACK) else None

    def apply(self, op: Op[R], process: SimProcess | None) -> R:
        """Have the inner store do an operation, and tell the watchers."""
        with outside():
            answer = self.inner.submit(op).result()
        for watcher in self.watchers:
            watcher.applied(op, answer, process)
        return answer

    def announce(self, op: Op[Any], answer: object) -> None:
        """Tell the subscribers of an operation that was done, if it has changed anything."""
        changed = changed_run(op, answer)
        if changed is not None and (self.tells_all or changes_something(op)):
            self.listeners.notify((changed,))

    def damaged(self, key: RunKey, frames: tuple[Frame, ...], *, flip: bool) -> tuple[Frame, ...]:
        """Return what is read where the journal holds ``frames``; ``flip`` lets bits be wrong."""
        frames = tuple(
            (seq, frame[: len(frame) // 2] if (key, seq) in self.torn else frame)
            for seq, frame in frames
        )
        if flip and self.flips and frames:
            self.flips -= 1
            number = len(frames) // 2
            seq, frame = frames[number]
            return (*frames[:number], (seq, flipped(frame)), *frames[number + 1 :])
        return frames


class FaultyStore:
    """One process's view of a store that goes wrong as ``faults`` say.

    Without a ``process``, as in an ordinary test, a crash raises SimulatedCrash from the call, and
    faults that need a process or virtual time cannot be used. ``seen_by`` gives the view of
    another process on the same store; only views that are ``struck`` have their writes counted
    and spoilt. With ``latency`` every answer to them takes up to so many seconds, as drawn.
    """

    def __init__(
        self,
        inner: Store,
        faults: Faults | None = None,
        *,
        process: SimProcess | None = None,
        medium: Medium | None = None,
        struck: bool = True,
        latency: float = 0.0,
    ) -> None:
        self.medium = medium or Medium(inner, faults or Faults(), latency=latency)
        self.faults = self.medium.faults
        self.process = process
        self.struck = struck

    def seen_by(self, process: SimProcess | None, *, struck: bool = True) -> FaultyStore:
        """Return another process's view of this store."""
        return FaultyStore(self.medium.inner, process=process, medium=self.medium, struck=struck)

    # --- the store's own face ---------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The inner store's URL."""
        return self.medium.inner.url

    @property
    def durability(self) -> Durability:
        """The inner store's durability."""
        return self.medium.inner.durability

    def submit(self, op: Op[R]) -> Future[R]:
        """Do an operation, or what the faults make of it."""
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        if self._dead():
            return future
        try:
            self._perform(op, future)
        except Exception as error:  # noqa: BLE001 - the future carries it to whoever waits
            future.set_exception(error)
        return future

    async def call(self, op: Op[R]) -> R:
        """Do an operation and return its answer."""
        future = self.submit(op)
        return future.result() if future.done() else await asyncio.wrap_future(future)

    def subscribe(self, key: RunKey | None, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` when a view of this store has changed that run, or any."""

        def heard() -> None:
            if not self._dead():
                listener()

        return self.medium.listeners.add(key, heard)

    def close(self) -> None:
        """Leave the inner store open: other views go on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- the way of an operation ------------------------------------------------------------------

    def _dead(self) -> bool:
        return self.process is not None and self.process.dead

    def _perform(self, op: Op[R], future: Future[R]) -> None:
        if self.struck:
            self._check_reachable()
        if isinstance(op, Claim):
            granted: Any = self.medium.apply(op, self.process)
            faults = self._strikes(op, granted=True) if isinstance(granted, Claimed) else []
            self._deliver(op, granted, future, faults)
            return
        faults = self._strikes(op) if changes_something(op) and self.struck else []
        if not faults:
            self._deliver(op, self._read(op), future, [])
        elif self._spoil_before(op, faults):
            answer = self._write(op, {fault.kind for fault in faults})
            self._deliver(op, answer, future, faults)

    def _strikes(self, op: Op[Any], *, granted: bool = False) -> list[Fault]:
        if not self.struck:
            return []
        if self.medium.rewinder is not None:
            self.medium.rewinder.note()
        return self.faults.at_write(type(op).__name__, granted=granted)

    def _check_reachable(self) -> None:
        until = self.medium.outage_until
        if until > float("-inf") and now() < until:
            raise StoreUnavailable("the simulated store is away")

    def _read(self, op: Op[R]) -> R:
        answer = self.medium.apply(op, self.process)
        if isinstance(op, ReadEvents):
            flips = self.medium.flips
            frames = cast("tuple[Frame, ...]", answer)
            damaged = self.medium.damaged(op.key, frames, flip=self.struck)
            if flips != self.medium.flips:
                self.faults.hit(Fault(FaultKind.BIT_FLIP, len(self.faults.trace)))
            return cast("R", damaged)
        return answer

    def _spoil_before(self, op: Op[Any], faults: list[Fault]) -> bool:
        """Let happen what happens before the write; False when there is to be no write."""
        for fault in faults:
            match fault.kind:
                case FaultKind.CRASH_BEFORE:
                    self._crash(fault)
                    return False
                case FaultKind.LOST:
                    self.faults.hit(fault)
                    raise StoreUnavailable("the simulated write was lost")
                case FaultKind.UNAVAILABLE:
                    self._go_away(fault)
                    raise StoreUnavailable("the simulated store went away")
                case FaultKind.LEASE_STOLEN:
                    self._steal(op, fault)
                case FaultKind.ROLLED_BACK:
                    if self.medium.rewinder is not None and self.medium.rewinder.rewind():
                        self.faults.hit(fault)
                case FaultKind.STALE_NOTIFY if isinstance(op, Append | Post):
                    self.faults.hit(fault)
                    self.medium.listeners.notify((op.key,))
                case _:
                    pass
        return True

    def _write(self, op: Op[R], kinds: set[FaultKind]) -> R:
        answer = self.medium.apply(op, self.process)
        guarded = isinstance(op, Post) and op.guard is not None
        if FaultKind.DUPLICATE in kinds and (isinstance(op, REPEATABLE) or guarded):
            self.faults.hit(Fault(FaultKind.DUPLICATE, len(self.faults.trace)))
            answer = self.medium.apply(op, self.process)
            self.medium.announce(op, answer)
        return answer

    def _deliver(self, op: Op[R], answer: R, future: Future[R], faults: list[Fault]) -> None:
        """Bring the answer to the caller, or what the faults leave of it."""
        stale = any(fault.kind is FaultKind.STALE_NOTIFY for fault in faults)
        if not stale:
            self.medium.announce(op, answer)
        wait = self.faults.random() * self.medium.latency if self.struck else 0.0
        for fault in faults:
            match fault.kind:
                case FaultKind.CRASH_AFTER | FaultKind.CRASH_TORN:
                    self._tear(op, fault)
                    self._crash(fault)
                    return
                case FaultKind.APPLIED_UNKNOWN:
                    self.faults.hit(fault)
                    raise StoreUnavailable("the simulated answer was lost")
                case FaultKind.UNAVAILABLE:
                    self._go_away(fault)
                    raise StoreUnavailable("the simulated store went away")
                case _:
                    wait = max(wait, self._disturb(fault))
        self._answer(op, answer, future, wait)

    def _answer(self, op: Op[R], answer: R, future: Future[R], wait: float) -> None:
        """Give the answer, after ``wait`` seconds where that is not zero."""

        def give() -> None:
            if not self._dead():
                for watcher in self.medium.watchers:
                    watcher.answered(op, answer, self.process)
                future.set_result(answer)

        if wait:
            asyncio.get_running_loop().call_later(wait, give)
        else:
            give()

    # --- faults -----------------------------------------------------------------------------------

    def _disturb(self, fault: Fault) -> float:
        """Do what a fault does to the process; returns how long the answer takes."""
        process = self.process
        match fault.kind:
            case FaultKind.DELAY:
                self.faults.hit(fault)
                return fault.lasts
            case FaultKind.PAUSE if process is not None:
                self.faults.hit(fault)
                process.freeze(until=now() + fault.lasts)
                return fault.lasts
            case FaultKind.CLOCK_JUMP if process is not None:
                self.faults.hit(fault)
                process.jump(fault.lasts)
            case FaultKind.CANCEL if process is not None:
                self.faults.hit(fault)
                asyncio.get_running_loop().call_soon(process.cancel)
            case FaultKind.BIT_FLIP:
                self.medium.flips += 1
            case _:
                pass
        return 0.0

    def _crash(self, fault: Fault) -> None:
        self.faults.hit(fault)
        if self.process is None:
            raise SimulatedCrash(str(fault))
        self.process.crash()

    def _tear(self, op: Op[Any], fault: Fault) -> None:
        if fault.kind is FaultKind.CRASH_TORN and isinstance(op, Append):
            row = self.medium.apply(Head(op.key), None)
            if row is not None and op.events:
                self.medium.torn.add((op.key, row.seq))

    def _go_away(self, fault: Fault) -> None:
        self.faults.hit(fault)
        self.medium.outage_until = now() + fault.lasts

    def _steal(self, op: Op[Any], fault: Fault) -> None:
        """Claim the run under another name, as a store does for a run whose lease has run out."""
        if not isinstance(op, Append):
            return
        row = self.medium.apply(Head(op.key), None)
        if row is None or row.owner is None:
            return
        self.faults.hit(fault)
        claim = Claim("thief", fault.lasts, STOLEN, LAPSED, key=op.key, dead_owner=row.owner)
        self.medium.apply(claim, None)


def changes_something(op: Op[Any]) -> bool:
    """Tell whether an operation is a durable write; an empty append only asks for news."""
    if isinstance(op, Append):
        return bool(op.events or op.records or op.patch != Patch())
    return isinstance(op, (*WRITES, Claim))


def flipped(frame: bytes) -> bytes:
    """Return a frame with one bit wrong, in its value where it has one."""
    place = len(frame) - 6
    return frame[:place] + bytes((frame[place] ^ 1,)) + frame[place + 1 :]


def now() -> float:
    """Return the running loop's time: virtual in a simulation."""
    return asyncio.get_running_loop().time()
