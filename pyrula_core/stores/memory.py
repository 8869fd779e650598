"""The store that keeps everything in this process: the reference, and the oracle of the tests.

Owns nothing that outlives the process. Must stay the plainest possible statement of the contract.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from pyrula_core.clock import SystemClock
from pyrula_core.errors import StoreUnavailable
from pyrula_core.model import Durability, RunKey, RunRow
from pyrula_core.ports import (
    Append,
    Appended,
    AppendResult,
    Claim,
    Claimed,
    ClaimResult,
    Clock,
    Create,
    Created,
    CreateResult,
    DeleteRun,
    Exists,
    Fenced,
    FindIdempotent,
    Frame,
    Head,
    ListPartitions,
    ListRuns,
    NotClaimable,
    Now,
    Occupied,
    Op,
    Post,
    Posted,
    PostResult,
    ReadEvents,
    ReadRecords,
    Record,
    RecordRange,
    Renew,
    Renewed,
    RunPage,
    ScanRecords,
    WriteRecords,
)
from pyrula_core.stores import rules
from pyrula_core.stores.front import Listeners, StoreClock, StoreFront

__all__ = ["MemoryDisk", "MemoryStore"]

R = TypeVar("R")


@dataclass(slots=True)
class Journal:
    """One run: its row, when it may be claimed, its frames and its guards."""

    number: int
    row: RunRow
    ready_at: float | None
    frames: list[Frame]
    guards: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Namespace:
    """What one namespace holds; journals are kept in the order of their creation."""

    listeners: Listeners = field(default_factory=Listeners)
    journals: dict[RunKey, Journal] = field(default_factory=dict)
    records: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    created: int = 0
    epoch_floor: int = 0

    def row(self, key: RunKey) -> RunRow | None:
        """Return a run's row, or None."""
        journal = self.journals.get(key)
        return None if journal is None else journal.row

    def put(self, journal: Journal, row: RunRow, events: Iterable[bytes], now: float) -> None:
        """Add events behind a journal and let ``row`` be its row."""
        journal.frames.extend(rules.sealed(events, key=row.key, after=journal.row.seq))
        journal.ready_at = rules.ready_at(row, before=journal.ready_at, now=now)
        journal.row = row


class MemoryDisk:
    """What memory stores share, and what stands in for a disk when a test opens one again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.namespaces: dict[str, Namespace] = {}


class MemoryStore(StoreFront):
    """Keeps journals in memory; every answer is there at once, nothing survives the process.

    Stores on one ``disk`` see the same journals where their ``namespace`` is the same.
    """

    def __init__(
        self,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        disk: MemoryDisk | None = None,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.clock = StoreClock(clock or SystemClock())
        with self.disk.lock:
            self.space = self.disk.namespaces.setdefault(namespace, Namespace())
        self.closed = False
        super().__init__(self.space.listeners)

    @property
    def url(self) -> str:
        """Always ``memory://``."""
        return "memory://"

    @property
    def durability(self) -> Durability:
        """Always ``memory``."""
        return Durability.MEMORY

    def at_once(self, op: Op[R]) -> tuple[R]:
        """Do an operation; every one is done in the calling thread."""
        if self.closed:
            raise StoreUnavailable("this store was closed", hint="Open it again with open_store")
        with self.disk.lock:
            answer = self.dispatch(op)
        changed = rules.changed_run(op, answer)
        if changed is not None:
            self.listeners.notify((changed,))
        return (cast("R", answer),)

    def enqueue(self, op: Op[R], future: Future[R]) -> None:
        """Never called: nothing is left to be queued."""
        future.set_exception(AssertionError(f"{op!r} was not done at once"))

    def close(self) -> None:
        """Take no more operations."""
        self.closed = True

    def dispatch(self, op: Op[R]) -> object:
        """Answer an operation of any kind."""
        match op:
            case Append():
                return self.append(op)
            case Create():
                return self.create(op)
            case Post():
                return self.post(op)
            case Claim():
                return self.claim(op)
            case Renew():
                return self.renew(op)
            case WriteRecords():
                return self.write_records(op)
            case DeleteRun():
                return self.delete_run(op)
            case _:
                return self.read(op)

    def read(self, op: Op[R]) -> object:
        """Answer an operation that changes nothing."""
        match op:
            case Head():
                return self.space.row(op.key)
            case FindIdempotent():
                return self.find_idempotent(op)
            case ReadEvents():
                return self.read_events(op)
            case ListRuns():
                return self.list_runs(op)
            case ReadRecords():
                kept = self.space.records.get(op.partition, {})
                return tuple(kept.get(key) for key in op.keys)
            case ScanRecords():
                return self.scan_records(op)
            case ListPartitions():
                found = (p for p, kept in self.space.records.items() if kept)
                return tuple(sorted(p for p in found if p.startswith(op.prefix)))
            case Now():
                return self.clock.time()
            case _:
                raise TypeError(f"{type(op).__name__} is not an operation of this store")

    # --- writes ---------------------------------------------------------------------------------

    def create(self, op: Create) -> CreateResult:
        """Create a run, or answer the one that is there."""
        rules.check_size(rules.new_events(op))
        found = self.space.row(op.key)
        if found is None and op.idempotency_key is not None:
            found = self.find_idempotent(FindIdempotent(op.key.name, op.idempotency_key))
        if found is not None:
            return Exists(found)
        if op.exclusive:
            for other in self.space.journals.values():
                if other.row.partition == op.partition and not other.row.status.ended:
                    return Occupied(other.row)
        now = self.clock.time()
        row = rules.new_row(op, epoch_floor=self.space.epoch_floor, now=now)
        self.space.created += 1
        journal = Journal(self.space.created, replace(row, seq=0), None, [])
        self.space.put(journal, row, rules.new_events(op), now)
        self.space.journals[op.key] = journal
        return Created(row)

    def append(self, op: Append) -> AppendResult:
        """Add events under a lease."""
        row = self.space.row(op.key)
        tail: tuple[Frame, ...] = ()
        if rules.needs_tail(row, op):
            tail = self.read_events(ReadEvents(op.key, after=op.expected_seq))
        refusal = rules.judge_append(row, op, tail)
        if refusal is not None:
            return refusal
        journal, now = self.space.journals[op.key], self.clock.time()
        after = rules.after_append(journal.row, op, now=now)
        self.space.put(journal, after, op.events, now)
        self.write(after.partition, op.records)
        return Appended(seq=after.seq, controls=after.controls)

    def post(self, op: Post) -> PostResult:
        """Add events from outside."""
        row = self.space.row(op.key)
        guards = {} if row is None else self.space.journals[op.key].guards
        guard_seq = None if op.guard is None else guards.get(op.guard)
        answer = rules.judge_post(row, op, guard_seq=guard_seq)
        if answer is not None:
            return answer
        journal, now = self.space.journals[op.key], self.clock.time()
        after = rules.after_post(journal.row, op, now=now)
        self.space.put(journal, after, op.events, now)
        if op.guard is not None:
            guards[op.guard] = after.seq
        return Posted(seq=after.seq)

    def claim(self, op: Claim) -> ClaimResult:
        """Take the lease of a run that may be claimed."""
        now = self.clock.time()
        journal = (
            self.next_claimable(op, now) if op.key is None else self.space.journals.get(op.key)
        )
        if journal is None:
            return NotClaimable()
        ready, dead = journal.ready_at, op.dead_owner
        if not rules.judge_claim(journal.row, ready=ready, now=now, dead_owner=dead):
            return NotClaimable(journal.row)
        events = rules.claim_events(journal.row, op)
        self.space.put(journal, rules.after_claim(journal.row, op, now=now), events, now)
        return Claimed(journal.row)

    def next_claimable(self, op: Claim, now: float) -> Journal | None:
        """Return the journal that has waited longest among those a claim serves."""
        served = [
            journal
            for journal in self.space.journals.values()
            if rules.judge_claim(journal.row, ready=journal.ready_at, now=now)
            and not op.serves.isdisjoint(
                {(journal.row.key.name, journal.row.version), (journal.row.key.name, "")}
            )
        ]
        return min(served, key=lambda journal: (journal.ready_at, journal.number), default=None)

    def renew(self, op: Renew) -> Renewed | Fenced:
        """Extend a lease that is held."""
        row, now = self.space.row(op.key), self.clock.time()
        fenced = rules.judge_renew(row, op, now=now)
        if fenced is not None:
            return fenced
        journal = self.space.journals[op.key]
        self.space.put(journal, rules.after_renew(journal.row, op, now=now), (), now)
        return Renewed(journal.row.controls)

    def write_records(self, op: WriteRecords) -> Appended | Fenced:
        """Apply records, under a fence where one is given."""
        rules.check_size((), op.records)
        answer = rules.judge_fence(None if op.fence is None else self.space.row(op.fence), op)
        if isinstance(answer, Appended):
            self.write(op.partition, op.records)
        return answer

    def write(self, partition: str, records: Iterable[Record | RecordRange]) -> None:
        """Apply records to a partition in order."""
        kept = self.space.records.setdefault(partition, {})
        for record in records:
            if isinstance(record, RecordRange):
                for key in [key for key in kept if record.start <= key < record.end]:
                    del kept[key]
            elif record.value is None:
                kept.pop(record.key, None)
            else:
                kept[record.key] = record.value

    def delete_run(self, op: DeleteRun) -> bool:
        """Delete a run that has ended."""
        row = self.space.row(op.key)
        if row is None or not row.status.ended:
            return False
        self.space.epoch_floor = max(self.space.epoch_floor, row.epoch)
        del self.space.journals[op.key]
        return True

    # --- reads ----------------------------------------------------------------------------------

    def find_idempotent(self, op: FindIdempotent) -> RunRow | None:
        """Return the row of a run by its idempotency key."""
        for journal in self.space.journals.values():
            row = journal.row
            if row.key.name == op.name and row.idempotency_key == op.idempotency_key:
                return row
        return None

    def read_events(self, op: ReadEvents) -> tuple[Frame, ...]:
        """Return frames in order."""
        journal = self.space.journals.get(op.key)
        start = max(0, op.after)
        end = None if op.limit is None else start + max(0, op.limit)
        return () if journal is None else tuple(journal.frames[start:end])

    def scan_records(self, op: ScanRecords) -> tuple[tuple[bytes, bytes], ...]:
        """Return a stretch of a partition."""
        kept = self.space.records.get(op.partition, {})
        keys = sorted((key for key in kept if op.start <= key < op.end), reverse=op.reverse)
        return tuple((key, kept[key]) for key in keys[: op.limit])

    def list_runs(self, op: ListRuns) -> RunPage:
        """Return a page of rows, newest first."""
        before, limit = rules.read_cursor(op.cursor), rules.page_limit(op.limit)
        found = [
            journal
            for journal in reversed(self.space.journals.values())
            if (before is None or journal.number < before) and listed(journal.row, op)
        ]
        rows = tuple(journal.row for journal in found[:limit])
        return RunPage(rows, str(found[limit - 1].number) if len(found) > limit else None)


def listed(row: RunRow, op: ListRuns) -> bool:
    """Say whether a listing asks for this row."""
    return (
        (op.name is None or row.key.name == op.name)
        and (not op.statuses or row.shown_status in op.statuses)
        and (op.error_code is None or row.error_code == op.error_code)
        and (op.created_after is None or row.created_at > op.created_after)
        and (op.created_before is None or row.created_at < op.created_before)
        and (op.partition is None or row.partition == op.partition)
        and (op.parent is None or row.parent == op.parent)
    )
