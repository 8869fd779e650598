"""What the SQLite store reads: rows, frames and records.

Owns the way from columns to ``RunRow``. Must never write, so that it may run on any connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import apsw

from pyrula_core.errors import JournalError
from pyrula_core.model import Controls, RunKey, RunKind, RunRow, RunStatus
from pyrula_core.ports import (
    FindIdempotent,
    Frame,
    Head,
    ListPartitions,
    ListRuns,
    ReadEvents,
    ReadRecords,
    RunPage,
    ScanRecords,
)
from pyrula_core.stores import rules
from pyrula_core.stores.sqlite_queries import SEQ_SPAN, SQL

__all__ = [
    "READS",
    "Session",
    "Standing",
    "StoredRun",
    "find_run",
    "find_standing",
    "read_frames",
    "stored_run",
]

KINDS: Final = {kind.value: kind for kind in RunKind}
STATUSES: Final = {status.value: status for status in RunStatus}
CONTROLS: Final = {
    (pause, cancel): Controls(pause=bool(pause), cancel=bool(cancel))
    for pause in (0, 1)
    for cancel in (0, 1)
}

LIST_BY: Final = {
    "name": SQL.list_by_name,
    "statuses": SQL.list_by_statuses,
    "error_code": SQL.list_by_error_code,
    "created_after": SQL.list_by_created_after,
    "created_before": SQL.list_by_created_before,
    "partition": SQL.list_by_partition,
    "parent": SQL.list_by_parent,
    "cursor": SQL.list_by_cursor,
}


class Session(NamedTuple):
    """A connection as one operation sees it: the namespace's number, and the time of writes."""

    db: apsw.Connection
    namespace: int
    now: float = 0.0


class Standing(NamedTuple):
    """The part of a run that decides about an append, and what an append then changes.

    Reading and building a whole row costs a fifth of a commit, and an append happens every step.
    """

    pk: int
    partition: int
    seq: int
    epoch: int
    status: str
    owner: str | None
    wake_at: float | None
    pause: int
    cancel: int

    @property
    def controls(self) -> Controls:
        """What was asked of the run."""
        return CONTROLS[self.pause, self.cancel]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run's row with what only the tables know of it."""

    pk: int
    partition: int
    ready_at: float | None
    row: RunRow


def stored_run(columns: tuple[Any, ...]) -> StoredRun:
    """Return the run of a row of the view ``run_row``."""
    pk, _, partition, ready_at, name, run_id, kind, version, partition_name = columns[:9]
    status, seq, epoch, created_at, updated_at, pause, cancel, *rest = columns[9:]
    if kind not in KINDS or status not in STATUSES:
        raise JournalError(
            f"the row of run {name}/{run_id} is damaged: kind {kind!r}, status {status!r}",
            hint="Nothing was executed. Restore the store from a backup",
        )
    row = RunRow(
        RunKey(name, run_id),
        KINDS[kind],
        version,
        partition_name,
        STATUSES[status],
        seq,
        epoch,
        created_at,
        updated_at,
        CONTROLS[pause, cancel],
        *rest,
    )
    return StoredRun(pk, partition, ready_at, row)


def find_run(session: Session, key: RunKey) -> StoredRun | None:
    """Return a run by its key, or None."""
    bound = (session.namespace, key.name, key.run_id)
    columns = session.db.execute(SQL.find_run, bound).fetchone()
    return None if columns is None else stored_run(columns)


def find_standing(session: Session, key: RunKey) -> Standing | None:
    """Return what decides about an append to a run, or None when there is no such run."""
    bound = (session.namespace, key.name, key.run_id)
    columns = session.db.execute(SQL.find_standing, bound).fetchone()
    return None if columns is None else Standing._make(columns)


def read_frames(
    session: Session, pk: int, *, after: int, limit: int | None = None
) -> tuple[Frame, ...]:
    """Return the frames of a run after a place, in order."""
    base = pk * SEQ_SPAN
    bound = (base + max(0, after), base + SEQ_SPAN, -1 if limit is None else max(0, limit))
    return tuple((at - base, frame) for at, frame in session.db.execute(SQL.events, bound))


def head(session: Session, op: Head) -> RunRow | None:
    run = find_run(session, op.key)
    return None if run is None else run.row


def find_idempotent(session: Session, op: FindIdempotent) -> RunRow | None:
    bound = (session.namespace, op.name, op.idempotency_key)
    columns = session.db.execute(SQL.find_idempotent, bound).fetchone()
    return None if columns is None else stored_run(columns).row


def read_events(session: Session, op: ReadEvents) -> tuple[Frame, ...]:
    run = find_run(session, op.key)
    return () if run is None else read_frames(session, run.pk, after=op.after, limit=op.limit)


def list_runs(session: Session, op: ListRuns) -> RunPage:
    limit = rules.page_limit(op.limit)
    asked = {
        "name": op.name,
        "statuses": json.dumps([status.value for status in op.statuses]) if op.statuses else None,
        "error_code": op.error_code,
        "created_after": op.created_after,
        "created_before": op.created_before,
        "partition": op.partition,
        "parent": op.parent,
        "cursor": rules.read_cursor(op.cursor),
    }
    bound = {name: value for name, value in asked.items() if value is not None}
    asked_for = [SQL.list_runs, *(LIST_BY[name] for name in bound)]
    query = "\n".join((" AND ".join(asked_for), SQL.list_order))
    bound |= {"namespace": session.namespace, "limit": limit + 1}
    runs = [stored_run(columns) for columns in session.db.execute(query, bound)]
    rows = tuple(run.row for run in runs[:limit])
    return RunPage(rows, str(runs[limit - 1].pk) if len(runs) > limit else None)


def partition_pk(session: Session, name: str) -> int | None:
    """Return a partition's number, or None when nothing was ever kept in it."""
    found = session.db.execute(SQL.find_partition, (session.namespace, name)).fetchone()
    return None if found is None else int(found[0])


def read_records(session: Session, op: ReadRecords) -> tuple[bytes | None, ...]:
    if len(op.keys) > 1:  # Several statements see one state only within a transaction.
        with session.db:
            return values(session, op)
    return values(session, op)


def values(session: Session, op: ReadRecords) -> tuple[bytes | None, ...]:
    """Return the values of keys of a partition, one statement each."""
    partition = partition_pk(session, op.partition)
    found = (session.db.execute(SQL.find_record, (partition, key)).fetchone() for key in op.keys)
    return tuple(None if columns is None else columns[0] for columns in found)


def scan_records(session: Session, op: ScanRecords) -> tuple[tuple[bytes, bytes], ...]:
    query = SQL.scan_records_reverse if op.reverse else SQL.scan_records
    limit = -1 if op.limit is None else op.limit
    bound = (partition_pk(session, op.partition), op.start, op.end, limit)
    return tuple(session.db.execute(query, bound))


def list_partitions(session: Session, op: ListPartitions) -> tuple[str, ...]:
    bound = {"namespace": session.namespace, "prefix": op.prefix}
    return tuple(name for (name,) in session.db.execute(SQL.partitions, bound))


READS: Final[dict[type, Callable[[Session, Any], object]]] = {
    Head: head,
    FindIdempotent: find_idempotent,
    ReadEvents: read_events,
    ListRuns: list_runs,
    ReadRecords: read_records,
    ScanRecords: scan_records,
    ListPartitions: list_partitions,
}
