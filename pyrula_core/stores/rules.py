"""The decisions every store makes, as functions of values, so that no two stores can disagree.

Owns: what an operation on a run answers, what it makes of the run's row, from when on a run may be
claimed, and the limits of a journal. Must never do IO or read a clock: rows, frames and the time
come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from pyrula_core.codec import event_bytes_max, seal
from pyrula_core.errors import CallerError, EventRefused
from pyrula_core.model import ENDED, Controls, RunKey, RunRow, RunStatus
from pyrula_core.ports import (
    Append,
    Appended,
    AppendResult,
    Claim,
    Claimed,
    Conflict,
    Create,
    Created,
    DeleteRun,
    Duplicate,
    Ended,
    Fenced,
    Frame,
    Missing,
    Op,
    Patch,
    Post,
    Posted,
    PostResult,
    Record,
    RecordRange,
    Refused,
    Renew,
    WriteRecords,
)

__all__ = [
    "Standing",
    "after_append",
    "after_claim",
    "after_post",
    "after_renew",
    "changed_run",
    "check_size",
    "claim_events",
    "judge_append",
    "judge_claim",
    "judge_fence",
    "judge_post",
    "judge_renew",
    "needs_tail",
    "new_events",
    "new_row",
    "page_limit",
    "page_rows_max",
    "read_cursor",
    "ready_at",
    "record_key_bytes_max",
    "record_value_bytes_max",
    "run_events_max",
    "run_events_reserve",
    "sealed",
]

run_events_max: Final = 2**24 - 1
# The last places of a journal are kept for claiming a run that has filled it and for ending it.
run_events_reserve: Final = 64
record_key_bytes_max: Final = 64 * 1024
record_value_bytes_max: Final = 512 * 1024 * 1024
page_rows_max: Final = 1000

WAKEABLE: Final = frozenset({RunStatus.WAITING, RunStatus.INTERRUPTED})


# --- journals -----------------------------------------------------------------------------------


def sealed(bodies: Iterable[bytes], *, key: RunKey, after: int) -> tuple[Frame, ...]:
    """Return the frames of ``bodies`` for the places behind ``after`` of a run's journal."""
    return tuple((seq, seal(body, key=key, seq=seq)) for seq, body in enumerate(bodies, after + 1))


def check_size(events: Iterable[bytes], records: Iterable[Record | RecordRange] = ()) -> None:
    """Raise EventRefused when an event or a record is larger than any store has to take."""
    why = oversized(events, records)
    if why is not None:
        raise EventRefused(why, hint="Store the value elsewhere and record a reference to it")


def oversized(events: Iterable[bytes], records: Iterable[Record | RecordRange] = ()) -> str | None:
    """Return which event or record is larger than any store has to take, or None."""
    for body in events:
        if len(body) > event_bytes_max:
            return f"an event has {len(body)} bytes, at most {event_bytes_max} are allowed"
    for record in records:
        if isinstance(record, Record):
            if len(record.key) > record_key_bytes_max:
                return f"a record's key has more than {record_key_bytes_max} bytes"
            if len(record.value or b"") > record_value_bytes_max:
                return f"a record's value has more than {record_value_bytes_max} bytes"
    return None


# --- when a run may be claimed ------------------------------------------------------------------


def ready_at(row: RunRow, *, before: float | None, now: float) -> float | None:
    """Return since when, or from when on, a run may be claimed; None: not until it changes.

    ``before`` is what this answered last: a run that stays in the queue keeps its place there.
    """
    held_back = row.controls.pause and not row.controls.cancel
    match row.status:
        case RunStatus.RUNNING:
            return row.lease_until
        case RunStatus.QUEUED if not held_back:
            return now if before is None else min(before, now)
        case RunStatus.WAITING | RunStatus.INTERRUPTED if not held_back:
            return row.wake_at
        case _:
            return None


# --- create -------------------------------------------------------------------------------------


def new_events(op: Create) -> tuple[bytes, ...]:
    """Return the bodies a new run's journal starts with."""
    return op.events if op.claim_owner is None else (*op.events, op.claim_event)


def new_row(op: Create, *, epoch_floor: int, now: float) -> RunRow:
    """Return the row of a new run.

    ``epoch_floor`` is the highest epoch among the namespace's deleted runs. Epochs go on from
    there, so that a forgotten owner of a deleted run cannot write into its successor.
    """
    claimed = op.claim_owner is not None
    return RunRow(
        key=op.key,
        kind=op.kind,
        version=op.version,
        partition=op.partition,
        status=RunStatus.RUNNING if claimed else RunStatus.QUEUED,
        seq=len(new_events(op)),
        epoch=epoch_floor + claimed,
        created_at=now,
        updated_at=now,
        owner=op.claim_owner,
        lease_until=now + op.claim_ttl if claimed else 0.0,
        idempotency_key=op.idempotency_key,
        parent=op.parent,
    )


# --- append -------------------------------------------------------------------------------------


class Standing(Protocol):
    """What of a run decides about an append; a ``RunRow`` is one."""

    @property
    def seq(self) -> int:
        """The last event's number."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the last claim."""
        ...

    @property
    def status(self) -> str:
        """A ``RunStatus`` or its value."""
        ...

    @property
    def owner(self) -> str | None:
        """Who holds the lease."""
        ...

    @property
    def controls(self) -> Controls:
        """What was asked of the run."""
        ...


def needs_tail(run: Standing | None, op: Append) -> bool:
    """Say whether ``judge_append`` must be shown the events after ``op.expected_seq``."""
    return run is not None and op.expected_seq < run.seq and run.epoch == op.epoch


def judge_append(
    run: Standing | None, op: Append, tail: Sequence[Frame] = ()
) -> AppendResult | None:
    """Return the answer to an append that changes nothing, or None when it is to be written.

    ``tail`` holds every stored event after ``op.expected_seq`` where ``needs_tail`` says so. The
    order matters: a repeated append is recognised even when it was the one that ended the run or
    gave the lease back, but never for an owner that has lost the run since.
    """
    if run is None:
        return Fenced(epoch=0)
    if run.epoch != op.epoch:
        return Fenced(epoch=run.epoch)
    if tail and repeats(op, tail):
        return Appended(seq=op.expected_seq + len(op.events), controls=run.controls)
    if run.status in ENDED:
        return Refused(reason=f"run {op.key} has ended as {run.status!s}", ended=True)
    if run.owner is None:
        return Fenced(epoch=run.epoch)
    if op.expected_seq != run.seq:
        return Conflict(seq=run.seq, tail=tuple(tail), controls=run.controls)
    why = oversized(op.events, op.records) or overfull(run, op)
    return None if why is None else Refused(reason=why)


def repeats(op: Append, tail: Sequence[Frame]) -> bool:
    """Say whether the journal holds exactly these events where they are to be appended."""
    found = tuple(tail[: len(op.events)])
    return bool(op.events) and found == sealed(op.events, key=op.key, after=op.expected_seq)


def overfull(run: Standing, op: Append) -> str | None:
    """Return why a journal has no room for an append, or None."""
    ending = op.patch.status is not None and op.patch.status.ended
    limit = run_events_max if ending else run_events_max - run_events_reserve
    if op.events and run.seq + len(op.events) > limit:
        return f"run {op.key} holds {run.seq} events, at most {limit} are allowed"
    return None


def after_append(row: RunRow, op: Append, *, now: float) -> RunRow:
    """Return a run's row after an append that is written; an ended run has no owner."""
    patch: Patch = op.patch
    status = row.status if patch.status is None else patch.status
    free = patch.release or status.ended
    return replace(
        row,
        status=status,
        seq=row.seq + len(op.events),
        updated_at=now,
        owner=None if free else row.owner,
        lease_until=0.0 if free else row.lease_until,
        wake_at=patch.wake_at,
        error_code=row.error_code if patch.error_code is None else patch.error_code,
        user_code=row.user_code if patch.user_code is None else patch.user_code,
    )


def judge_fence(row: RunRow | None, op: WriteRecords) -> Appended | Fenced:
    """Return what a write of records answers: Appended when it is to be written."""
    if op.fence is None:
        return Appended(seq=0, controls=Controls())
    if row is None or row.epoch != op.epoch:
        return Fenced(epoch=0 if row is None else row.epoch)
    return Appended(seq=row.seq, controls=row.controls)


# --- post ---------------------------------------------------------------------------------------


def judge_post(row: RunRow | None, op: Post, *, guard_seq: int | None) -> PostResult | None:
    """Return the answer to a post that changes nothing, or None when it is to be written.

    ``guard_seq`` is what an earlier post with the same guard answered. Raises EventRefused when
    the journal is full.
    """
    if row is None:
        return Missing()
    if guard_seq is not None:
        return Duplicate(seq=guard_seq)
    if row.status.ended:
        return Ended(row=row)
    check_size(op.events)
    if row.seq + len(op.events) > run_events_max - run_events_reserve:
        raise EventRefused(
            f"run {op.key} holds {row.seq} events and can take no more from outside",
            hint="Let the run continue as a new one before its journal is full",
        )
    return None


def after_post(row: RunRow, op: Post, *, now: float) -> RunRow:
    """Return a run's row after a post that is written."""
    wakes = op.wake and row.status in WAKEABLE
    return replace(
        row,
        seq=row.seq + len(op.events),
        updated_at=now,
        status=RunStatus.QUEUED if wakes else row.status,
        wake_at=None if wakes else row.wake_at,
        controls=Controls(
            pause=row.controls.pause if op.pause is None else op.pause,
            cancel=row.controls.cancel if op.cancel is None else op.cancel,
        ),
    )


# --- leases -------------------------------------------------------------------------------------


def judge_claim(
    row: RunRow, *, ready: float | None, now: float, dead_owner: str | None = None
) -> bool:
    """Say whether a run may be claimed now; ``ready`` is what ``ready_at`` answered last."""
    orphan = row.status is RunStatus.RUNNING and dead_owner is not None
    due = (orphan and row.owner == dead_owner) or (ready is not None and ready <= now)
    return due and row.seq + 2 <= run_events_max


def claim_events(row: RunRow, op: Claim) -> tuple[bytes, ...]:
    """Return the bodies a claim appends: the lost owner's end comes before the new claim."""
    lost = row.status is RunStatus.RUNNING
    return (op.orphaned, op.claimed) if lost else (op.claimed,)


def after_claim(row: RunRow, op: Claim, *, now: float) -> RunRow:
    """Return a run's row after a claim that is written."""
    return replace(
        row,
        status=RunStatus.RUNNING,
        seq=row.seq + len(claim_events(row, op)),
        epoch=row.epoch + 1,
        updated_at=now,
        owner=op.owner,
        lease_until=now + op.ttl,
        wake_at=None,
    )


def judge_renew(row: RunRow | None, op: Renew, *, now: float) -> Fenced | None:
    """Return why a lease cannot be renewed, or None.

    A lease that has run out is not renewed even when nobody has claimed the run yet: its owner
    may have been asleep for any time, and only a new claim records that it is back.
    """
    if row is None:
        return Fenced(epoch=0)
    held = row.epoch == op.epoch and row.owner == op.owner and now < row.lease_until
    return None if held else Fenced(epoch=row.epoch)


def after_renew(row: RunRow, op: Renew, *, now: float) -> RunRow:
    """Return a run's row after a renewal."""
    return replace(row, lease_until=now + op.ttl)


# --- what a subscriber is told, and pages -------------------------------------------------------


def changed_run(op: Op[object], answer: object) -> RunKey | None:
    """Return the run whose subscribers are to be told of an operation, or None."""
    match op, answer:
        case (Append(events=(), patch=Patch(status=None)), Appended()):
            # It only asked where the journal stands.
            return None
        case (Append(key=key), Appended()) | (Post(key=key), Posted()):
            return key
        case (DeleteRun(key=key), True):
            return key
        case _, Created(row=row) | Claimed(row=row):
            return row.key
        case _:
            return None


def page_limit(limit: int) -> int:
    """Return how many rows a page may have."""
    return max(1, min(limit, page_rows_max))


def read_cursor(cursor: str | None) -> int | None:
    """Return the place a cursor stands for; raises CallerError for one no page has answered."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise CallerError(
            f"cursor={cursor[:40]!r} was not answered by a page of runs",
            hint="Pass the cursor of the page before unchanged, or none for the first page",
        )
    return int(cursor)
