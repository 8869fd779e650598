"""The conformance suite catches stores that break a law, each for the right reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyrula_core.model import RunStatus
from pyrula_core.ports import (
    Append,
    Appended,
    Claim,
    Claimed,
    Conflict,
    Create,
    Created,
    DeleteRun,
    NotClaimable,
    Patch,
    Post,
    ReadEvents,
    Renew,
    Renewed,
    ScanRecords,
    WriteRecords,
)
from pyrula_core.stores import MemoryStore
from pyrula_core.testing import check
from tests.conformance.storages import MemoryStorage


class Broken(MemoryStore):
    """A memory store with one law broken; ``law`` says which."""

    law = ""


class NoFence(Broken):
    law = "L5"

    def append(self, op: Append) -> Any:
        row = self.space.row(op.key)
        return super().append(op if row is None else replace(op, epoch=row.epoch))


class FenceByOwnerOnly(Broken):
    """Takes any epoch that is not older than the run's."""

    law = "L1"

    def append(self, op: Append) -> Any:
        row = self.space.row(op.key)
        stale = row is None or op.epoch < row.epoch
        return super().append(op if stale else replace(op, epoch=row.epoch))


class NoSeqCheck(Broken):
    law = "L1"

    def append(self, op: Append) -> Any:
        answer = super().append(op)
        if isinstance(answer, Conflict):
            return super().append(replace(op, expected_seq=answer.seq))
        return answer


class NotIdempotent(Broken):
    law = "L2"

    def append(self, op: Append) -> Any:
        row = self.space.row(op.key)
        if row and row.epoch == op.epoch and op.expected_seq < row.seq:
            tail = self.read_events(ReadEvents(op.key, op.expected_seq))
            return Conflict(row.seq, tail, row.controls)
        return super().append(op)


class RepeatsAppendTwice(Broken):
    """A retry that does not look: what was unknown is written once more."""

    law = "L2"

    def append(self, op: Append) -> Any:
        answer = super().append(op)
        row = self.space.row(op.key)
        if row and row.owner and isinstance(answer, Appended) and answer.seq < row.seq:
            return super().append(replace(op, expected_seq=row.seq))
        return answer


class TerminalNotFrozen(Broken):
    law = "L7"

    def append(self, op: Append) -> Any:
        journal = self.space.journals.get(op.key)
        if journal and journal.row.status.ended and op.expected_seq == journal.row.seq:
            journal.row = replace(journal.row, status=RunStatus.RUNNING, owner="a")
        return super().append(op)


class PostsToTheEnded(Broken):
    law = "L7"

    def post(self, op: Post) -> Any:
        journal = self.space.journals.get(op.key)
        if journal and journal.row.status.ended:
            journal.row = replace(journal.row, status=RunStatus.WAITING)
        return super().post(op)


class EpochResetOnReopen(Broken):
    law = "L5"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for journal in self.space.journals.values():
            journal.row = replace(journal.row, epoch=0)


class EpochResetOnDelete(Broken):
    law = "L5"

    def delete_run(self, op: DeleteRun) -> Any:
        deleted = super().delete_run(op)
        self.space.epoch_floor = 0
        return deleted


class GuardsIgnored(Broken):
    law = "post"

    def post(self, op: Post) -> Any:
        return super().post(replace(op, guard=None))


class PartialAppend(Broken):
    """A crash in the middle of a batch: its first event is there, the rest is not."""

    law = "L1"

    def append(self, op: Append) -> Any:
        answer = super().append(op)
        if isinstance(answer, Appended) and len(op.events) > 1:
            del self.space.journals[op.key].frames[op.expected_seq + 1 :]
        return answer


class RecordsNotInTheTransaction(Broken):
    law = "L1"

    def append(self, op: Append) -> Any:
        row = self.space.row(op.key)
        if row:
            self.write(row.partition, op.records)
        return super().append(op)


class StatusNotInTheTransaction(Broken):
    law = "L1"

    def append(self, op: Append) -> Any:
        return super().append(replace(op, patch=Patch()))


class RecordsNotFenced(Broken):
    law = "L5"

    def write_records(self, op: WriteRecords) -> Any:
        return super().write_records(replace(op, fence=None))


class ForgetsOnReopen(Broken):
    law = "L3"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for journal in self.space.journals.values():
            if len(journal.frames) > 3:
                journal.frames.pop()
                journal.row = replace(journal.row, seq=journal.row.seq - 1)


class FramesMoved(Broken):
    """Seals every frame for the place before its own."""

    law = "L4"

    def read_events(self, op: ReadEvents) -> Any:
        return tuple((seq, frame[:-4] + b"\0\0\0\0") for seq, frame in super().read_events(op))


class RenewsWhatRanOut(Broken):
    law = "L6"

    def renew(self, op: Renew) -> Any:
        row = self.space.row(op.key)
        if row and row.epoch == op.epoch and row.owner == op.owner:
            return Renewed(row.controls)
        return super().renew(op)


class LeasesNeverEnd(Broken):
    law = "L6"

    def claim(self, op: Claim) -> Any:
        return super().claim(replace(op, ttl=1e12))


class ClockGoesBack(Broken):
    law = "L6"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.clock = options["clock"]


class NamespacesShared(Broken):
    law = "L8"

    def __init__(self, *, namespace: str, **options: Any) -> None:
        super().__init__(namespace="default", **options)


class TwoWinners(Broken):
    law = "L10"

    def claim(self, op: Claim) -> Any:
        answer = super().claim(op)
        if isinstance(answer, NotClaimable) and op.key is None:
            for journal in self.space.journals.values():
                if journal.row.status is RunStatus.RUNNING:
                    return Claimed(journal.row)
        return answer


class OrphansUnmentioned(Broken):
    law = "L10"

    def claim(self, op: Claim) -> Any:
        for journal in self.space.journals.values():
            row = journal.row
            if row.status is RunStatus.RUNNING and row.lease_until <= self.clock.time():
                journal.row = replace(row, status=RunStatus.QUEUED)
        return super().claim(op)


class OrphansLost(Broken):
    law = "L10"

    def claim(self, op: Claim) -> Any:
        if op.key is None:
            for journal in self.space.journals.values():
                if journal.row.status is RunStatus.RUNNING:
                    journal.ready_at = None
        return super().claim(op)


class NewestFirst(Broken):
    law = "L10"

    def next_claimable(self, op: Claim, now: float) -> Any:
        ready = [j for j in self.space.journals.values() if j.ready_at and j.ready_at <= now]
        served = {name for name, _ in op.serves}
        return next((j for j in reversed(ready) if j.row.key.name in served), None)


class CreatesTwice(Broken):
    law = "L2"

    def create(self, op: Create) -> Any:
        answer = super().create(op)
        if not isinstance(answer, Created) and answer.row.key == op.key:
            del self.space.journals[op.key]
            return super().create(op)
        return answer


class IdempotencyIgnored(Broken):
    law = "L2"

    def create(self, op: Create) -> Any:
        return super().create(replace(op, idempotency_key=None))


class Deaf(Broken):
    law = "L11"

    def subscribe(self, key: Any, listener: Any) -> Any:
        return lambda: None


class ScansInAnyOrder(Broken):
    law = "records"

    def scan_records(self, op: ScanRecords) -> Any:
        return super().scan_records(replace(op, reverse=False))


class PagesOverlap(Broken):
    law = "list"

    def list_runs(self, op: Any) -> Any:
        page = super().list_runs(op)
        return replace(page, cursor=page.cursor and str(int(page.cursor) + 1))


BROKEN = Broken.__subclasses__()


@pytest.mark.parametrize("store", BROKEN, ids=lambda store: store.__name__)
async def test_a_broken_store_is_caught(store: type[Broken]) -> None:
    report = await check(lambda: MemoryStorage(store))
    broken = {finding.check.law for finding in report.failures}
    assert store.law in broken, str(report)


async def test_the_store_they_are_made_of_is_not_broken() -> None:
    report = await check(lambda: MemoryStorage(Broken))
    assert not report.failures, str(report)
