"""One owner's attempt at a run: the only door through which its journal is written.

Owns the place in the journal (``seq``), the fencing ``epoch``, the lease deadline and the order of
writes. One append is under way at a time; what is submitted meanwhile goes into the next one
together. After a lost lease or an unknown outcome nothing more is written. Callable from any
thread, since a graph's nodes may run in threads; must never run user code.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from pyrula_core.codec import decode, encode
from pyrula_core.errors import EventRefused, JournalError, LeaseLost, StoreError, StoreUnavailable
from pyrula_core.events import EXTERNAL, Event
from pyrula_core.model import Controls, RunKey, RunRow
from pyrula_core.ports import (
    Append,
    Appended,
    AppendResult,
    Clock,
    Conflict,
    Fenced,
    Patch,
    Record,
    RecordRange,
    Refused,
    Store,
)

__all__ = ["Ack", "Attempt"]

# A lease counts as lost this part of its length before it runs out, so that a slow clock or a
# paused process does not write in the last moment.
lease_margin_part = 0.1


@dataclass(frozen=True, slots=True)
class Ack:
    """The store's word for a write: durable up to ``seq``.

    ``foreign`` holds what others added to the journal just before it, in order. ``written`` is
    False when the write gave way to them (see ``unless_foreign``).
    """

    seq: int
    controls: Controls
    foreign: tuple[Event, ...] = ()
    written: bool = True


@dataclass(slots=True)
class _Write:
    bodies: tuple[bytes, ...]
    patch: Patch
    records: Sequence[Record | RecordRange]
    unless_foreign: bool
    future: Future[Ack] = field(default_factory=Future)


class Attempt:
    """The writing side of a claimed run.

    ``seq`` and ``controls`` are the last known; ``failure`` is why nothing more can be written;
    ``draining`` asks the run to stop at its next durable boundary, since its worker does.
    """

    def __init__(self, store: Store, row: RunRow, *, clock: Clock, lease_ttl: float) -> None:
        self.store = store
        self.key: RunKey = row.key
        self.row = row
        self.epoch = row.epoch
        self.seq = row.seq
        self.controls = row.controls
        self.clock = clock
        self.lease_ttl = lease_ttl
        self.deadline = clock.monotonic() + lease_ttl
        self.failure: StoreError | None = None
        self.released = False
        self.draining = False
        self._queue: deque[_Write] = deque()
        self._in_flight: list[_Write] = []
        self._foreign: list[Event] = []
        self._lock = threading.Lock()

    def submit(
        self,
        events: Sequence[Event] = (),
        *,
        patch: Patch = Patch(),
        records: Sequence[Record | RecordRange] = (),
        unless_foreign: bool = False,
        linger: bool = False,
    ) -> Future[Ack]:
        """Queue events for the journal; the future holds once they are durable.

        Events without a time get the current one. ``linger`` leaves them in the queue until the
        next submit, or ``flush``: two writes that follow each other are then one commit.

        ``unless_foreign`` gives way: when others have added events first, nothing is written and
        the answer says so. The future raises LeaseLost, EventRefused, StoreUnavailable (outcome
        unknown), JournalError or PayloadTooLarge.
        """
        now = self.clock.time()
        bodies = tuple(encode(event.stamped(now)) for event in events)
        write = _Write(bodies, patch, records, unless_foreign)
        # A waiter that is cancelled must not cancel the write: it is on its way, and others wait.
        write.future.set_running_or_notify_cancel()
        with self._lock:
            self._queue.append(write)
            batch = [] if linger else self._next_batch()
        self._send(batch)
        return write.future

    @property
    def busy(self) -> bool:
        """True while something that was submitted has not been answered."""
        return bool(self._in_flight or self._queue)

    def flush(self) -> None:
        """Send what lingers in the queue."""
        with self._lock:
            batch = self._next_batch()
        self._send(batch)

    def renewed(self, controls: Controls, *, asked_at: float) -> None:
        """Take a renewal that the store granted; ``asked_at`` is when it was asked for."""
        self.deadline = asked_at + self.lease_ttl
        self.controls = controls

    def lost(self, error: StoreError) -> None:
        """Stop writing for good: the lease or the store is gone."""
        with self._lock:
            self.failure = self.failure or error

    def check_held(self) -> None:
        """Raise what ended this attempt, or LeaseLost when its lease is about to run out."""
        if self.failure is not None:
            raise self.failure
        margin = self.lease_ttl * lease_margin_part
        if not self.released and self.clock.monotonic() > self.deadline - margin:
            self.lost(LeaseLost(f"the lease on run {self.key} was not renewed in time"))
            self.check_held()

    def _next_batch(self) -> list[_Write]:
        """Take what is queued, up to a write that changes the row; called under the lock."""
        if self._in_flight or not self._queue:
            return []
        batch: list[_Write] = []
        while self._queue:
            if self._queue[0].unless_foreign and batch:
                break
            write = self._queue.popleft()
            batch.append(write)
            if write.patch != Patch() or write.unless_foreign:
                break
        self._in_flight = batch
        return batch

    def _send(self, batch: list[_Write]) -> None:
        while batch:
            try:
                self.check_held()
            except StoreError as error:
                batch = self._abort(error)
                continue
            answer = self.store.submit(self._operation(batch))
            if not answer.done():
                answer.add_done_callback(self._answered)
                return
            batch = self._settle(answer)

    def _operation(self, batch: list[_Write]) -> Append:
        return Append(
            key=self.key,
            epoch=self.epoch,
            expected_seq=self.seq,
            events=tuple(body for write in batch for body in write.bodies),
            patch=batch[-1].patch,
            records=[record for write in batch for record in write.records],
        )

    def _answered(self, answer: Future[AppendResult]) -> None:
        self._send(self._settle(answer))

    def _settle(self, answer: Future[AppendResult]) -> list[_Write]:
        """Act on the store's answer; returns what is to be sent next."""
        error = answer.exception()
        if error is not None:
            known = isinstance(error, StoreError)
            return self._abort(error if known else StoreUnavailable(f"{error!r}"))  # type: ignore[arg-type]
        match answer.result():
            case Appended(seq, controls):
                return self._acknowledge(seq, controls)
            case Conflict(seq, tail, controls):
                return self._merge(seq, tail, controls)
            case Fenced(epoch):
                return self._abort(
                    LeaseLost(f"run {self.key} is held under epoch {epoch}, not {self.epoch}")
                )
            case Refused(reason, ended):
                kind = LeaseLost if ended else EventRefused
                return self._abort(kind(f"the store refused events of run {self.key}: {reason}"))

    def _acknowledge(self, seq: int, controls: Controls, *, written: bool = True) -> list[_Write]:
        with self._lock:
            done, self._in_flight = self._in_flight, []
            self.seq = seq
            self.controls = controls
            self.released = self.released or (written and done[-1].patch.release)
            foreign, self._foreign = tuple(self._foreign), []
            batch = self._next_batch()
        for place, write in enumerate(done):
            write.future.set_result(Ack(seq, controls, foreign if place == 0 else (), written))
        return batch

    def _merge(
        self, seq: int, tail: tuple[tuple[int, bytes], ...], controls: Controls
    ) -> list[_Write]:
        """Take events that others added first, then try again behind them, or give way."""
        try:
            events = [decode(frame, key=self.key, seq=place) for place, frame in tail]
            self._check_foreign(events)
        except JournalError as error:
            return self._abort(error)
        self._foreign += events
        self.seq = seq
        if self._in_flight[0].unless_foreign:
            return self._acknowledge(seq, controls, written=False)
        return self._in_flight

    def _check_foreign(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type not in EXTERNAL:
                raise JournalError(
                    f"event {event.seq} of run {self.key} is {event.type}, written by nobody "
                    f"who holds epoch {self.epoch}",
                    hint="Two programs share one lease; check that worker ids are unique",
                )

    def _abort(self, error: StoreError) -> list[_Write]:
        """Fail what is under way and all that waits behind it."""
        with self._lock:
            self.failure = self.failure or error
            failed = [*self._in_flight, *self._queue]
            self._in_flight = []
            self._queue.clear()
        for write in failed:
            write.future.set_exception(error)
        return []
