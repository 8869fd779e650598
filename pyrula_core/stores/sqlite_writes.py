"""What the SQLite store writes: one function an operation, inside a transaction it is given.

Every function decides before it writes, so that an operation that is refused leaves nothing behind
in the transaction it shares with others. Must never begin, commit or roll back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import apsw

from pyrula_core.codec import event_bytes_max, seal
from pyrula_core.model import Controls, RunKey, RunRow
from pyrula_core.ports import (
    Append,
    Appended,
    AppendResult,
    Claim,
    Claimed,
    ClaimResult,
    Create,
    Created,
    CreateResult,
    DeleteRun,
    Exists,
    Fenced,
    FindIdempotent,
    Frame,
    Missing,
    NotClaimable,
    Occupied,
    Post,
    Posted,
    PostResult,
    Record,
    RecordRange,
    Renew,
    Renewed,
    WriteRecords,
)
from pyrula_core.stores import rules
from pyrula_core.stores.sqlite_queries import SEQ_SPAN, SQL
from pyrula_core.stores.sqlite_reads import (
    Session,
    StoredRun,
    find_idempotent,
    find_run,
    find_standing,
    partition_pk,
    read_frames,
    stored_run,
)

__all__ = ["WRITES", "append_ordinary", "enter_namespace", "known_namespace"]

# The patch of an append that names none, as the same object: comparing by identity is cheap.
PLAIN: Final = Append(RunKey("", ""), 0, 0, ()).patch
NO_CONTROLS: Final = Controls()


def known_namespace(db: apsw.Connection, name: str) -> int | None:
    """Return a namespace's number, or None when it is new."""
    found = db.execute(SQL.find_namespace, (name,)).fetchone()
    return None if found is None else int(found[0])


def enter_namespace(name: str, db: apsw.Connection) -> int:
    """Return a namespace's number, adding it when it is new."""
    found = known_namespace(db, name)
    if found is not None:
        return found
    db.execute(SQL.add_namespace, (name,))
    return db.last_insert_rowid()


def create(session: Session, op: Create) -> CreateResult:
    events = rules.new_events(op)
    rules.check_size(events)
    found = existing(session, op)
    if found is not None:
        return Exists(found)
    partition = partition_for(session, op.partition)
    if op.exclusive:
        columns = session.db.execute(SQL.open_in_partition, (session.namespace, partition))
        other = columns.fetchone()
        if other is not None:
            return Occupied(stored_run(other).row)
    ((floor,),) = session.db.execute(SQL.epoch_floor, (session.namespace,))
    row = rules.new_row(op, epoch_floor=int(floor), now=session.now)
    ready = rules.ready_at(row, before=None, now=session.now)
    session.db.execute(SQL.add_run, run_columns(session, row, partition=partition, ready=ready))
    pk = session.db.last_insert_rowid()
    add_events(session, pk, row.key, events, after=0)
    return Created(row)


def run_columns(
    session: Session, row: RunRow, *, partition: int, ready: float | None
) -> tuple[int | float | str | None, ...]:
    """Return what ``add_run`` is bound to."""
    what = (row.key.name, row.key.run_id, row.kind.value, row.version, row.status.value)
    when = (row.epoch, row.created_at, row.updated_at)
    controls = (int(row.controls.pause), int(row.controls.cancel))
    lease = (row.owner, row.lease_until, row.wake_at)
    rest = (row.idempotency_key, row.parent, row.error_code, row.user_code)
    return (session.namespace, partition, ready, *what, *when, *controls, *lease, *rest)


def existing(session: Session, op: Create) -> RunRow | None:
    """Return the run that stands in the way of creating one, if any."""
    run = find_run(session, op.key)
    if run is not None:
        return run.row
    if op.idempotency_key is None:
        return None
    return find_idempotent(session, FindIdempotent(op.key.name, op.idempotency_key))


def append_ordinary(session: Session, op: Append) -> Appended | None:
    """Do the append of an ordinary step by one statement; None when nothing was done.

    The statement is a transaction of its own unless one is open.
    """
    if len(op.events) != 1 or op.records or not (op.patch is PLAIN or op.patch == PLAIN):
        return None
    (body,), key, seq = op.events, op.key, op.expected_seq + 1
    if (
        len(body) > event_bytes_max
        or not 1 < seq <= rules.run_events_max - rules.run_events_reserve
    ):
        return None
    frame = seal(body, key=key, seq=seq)
    bound = (seq, session.now, frame, session.namespace, key.name, key.run_id, op.epoch)
    session.db.execute(SQL.add_event_if_ordinary, bound)
    return Appended(seq, NO_CONTROLS) if session.db.changes() else None


def append(session: Session, op: Append) -> AppendResult:
    ordinary = append_ordinary(session, op)
    if ordinary is not None:
        return ordinary
    run = find_standing(session, op.key)
    tail: tuple[Frame, ...] = ()
    if run is not None and rules.needs_tail(run, op):
        tail = read_frames(session, run.pk, after=op.expected_seq)
    refusal = rules.judge_append(run, op, tail)
    if refusal is not None or run is None:
        return refusal or Fenced(epoch=0)
    if run.wake_at is not None or not op.events or op.patch != PLAIN:
        change_row(session, op)
    add_events(session, run.pk, op.key, op.events, after=run.seq)
    if op.records:
        write(session, run.partition, op.records)
    return Appended(run.seq + len(op.events), run.controls)


def change_row(session: Session, op: Append) -> None:
    """Store what an append changes of a run beside its journal."""
    run = find_run(session, op.key)
    if run is not None:
        put_row(session, run, rules.after_append(run.row, op, now=session.now))


def post(session: Session, op: Post) -> PostResult:
    run = find_run(session, op.key)
    guard_seq = None
    if run is not None and op.guard is not None:
        found = session.db.execute(SQL.find_guard, (run.pk, op.guard)).fetchone()
        guard_seq = None if found is None else int(found[0])
    answer = rules.judge_post(None if run is None else run.row, op, guard_seq=guard_seq)
    if answer is not None or run is None:
        return answer or Missing()
    after = rules.after_post(run.row, op, now=session.now)
    add_events(session, run.pk, op.key, op.events, after=run.row.seq)
    put_row(session, run, after)
    if op.guard is not None:
        session.db.execute(SQL.add_guard, (run.pk, op.guard, after.seq))
    return Posted(seq=after.seq)


def claim(session: Session, op: Claim) -> ClaimResult:
    run = next_ready(session, op) if op.key is None else find_run(session, op.key)
    if run is None:
        return NotClaimable()
    ready, dead = run.ready_at, op.dead_owner
    if not rules.judge_claim(run.row, ready=ready, now=session.now, dead_owner=dead):
        return NotClaimable(run.row)
    after = rules.after_claim(run.row, op, now=session.now)
    add_events(session, run.pk, run.row.key, rules.claim_events(run.row, op), after=run.row.seq)
    put_row(session, run, after)
    return Claimed(after)


def next_ready(session: Session, op: Claim) -> StoredRun | None:
    """Return the run that has waited longest among those a claim serves."""
    serves = json.dumps(sorted(op.serves))
    bound = {"namespace": session.namespace, "now": session.now, "serves": serves}
    columns = session.db.execute(SQL.next_ready, bound).fetchone()
    return None if columns is None else stored_run(columns)


def renew(session: Session, op: Renew) -> Renewed | Fenced:
    run = find_run(session, op.key)
    fenced = rules.judge_renew(None if run is None else run.row, op, now=session.now)
    if fenced is not None or run is None:
        return fenced or Fenced(epoch=0)
    after = rules.after_renew(run.row, op, now=session.now)
    ready = rules.ready_at(after, before=run.ready_at, now=session.now)
    session.db.execute(SQL.renew_run, (after.lease_until, ready, run.pk))
    return Renewed(after.controls)


def write_records(session: Session, op: WriteRecords) -> Appended | Fenced:
    rules.check_size((), op.records)
    run = None if op.fence is None else find_run(session, op.fence)
    answer = rules.judge_fence(None if run is None else run.row, op)
    if isinstance(answer, Appended):
        write(session, partition_for(session, op.partition), op.records)
    return answer


def delete_run(session: Session, op: DeleteRun) -> bool:
    run = find_run(session, op.key)
    if run is None or not run.row.status.ended:
        return False
    base = run.pk * SEQ_SPAN
    session.db.execute(SQL.raise_epoch_floor, (run.row.epoch, session.namespace))
    session.db.execute(SQL.delete_events, (base, base + SEQ_SPAN))
    session.db.execute(SQL.delete_guards, (run.pk,))
    session.db.execute(SQL.delete_run, (run.pk,))
    return True


# --- parts ----------------------------------------------------------------------------------------


def add_events(
    session: Session, pk: int, key: RunKey, bodies: Iterable[bytes], *, after: int
) -> None:
    """Seal and store events behind place ``after`` of a run's journal."""
    base = pk * SEQ_SPAN
    for seq, frame in rules.sealed(bodies, key=key, after=after):
        session.db.execute(SQL.add_event, (base + seq, session.now, frame))


def put_row(session: Session, run: StoredRun, row: RunRow) -> None:
    """Store what changed of a run's row, and from when on it may be claimed."""
    ready = rules.ready_at(row, before=run.ready_at, now=session.now)
    place = (ready, row.status.value, row.epoch, row.updated_at)
    controls = (int(row.controls.pause), int(row.controls.cancel))
    lease = (row.owner, row.lease_until, row.wake_at)
    bound = (*place, *controls, *lease, row.error_code, row.user_code, run.pk)
    session.db.execute(SQL.update_run, bound)


def partition_for(session: Session, name: str) -> int:
    """Return a partition's number, adding it when it is new."""
    found = partition_pk(session, name)
    if found is not None:
        return found
    session.db.execute(SQL.add_partition, (session.namespace, name))
    return session.db.last_insert_rowid()


def write(session: Session, partition: int, records: Sequence[Record | RecordRange]) -> None:
    """Apply records to a partition in order."""
    for record in records:
        if isinstance(record, RecordRange):
            session.db.execute(SQL.delete_records, (partition, record.start, record.end))
        elif record.value is None:
            session.db.execute(SQL.delete_record, (partition, record.key))
        else:
            session.db.execute(SQL.put_record, (partition, record.key, record.value))


WRITES: Final[dict[type, Callable[[Session, Any], object]]] = {
    Create: create,
    Append: append,
    Post: post,
    Claim: claim,
    Renew: renew,
    WriteRecords: write_records,
    DeleteRun: delete_run,
}
