"""Deletes, prunes and copies threads. Every function is a generator of operations and flushes.

Owns mark and sweep. A deletion first replaces the thread's generation, so that whoever writes at
the same time notices; then it reads what survives, makes survivors stand on their own where an
ancestor goes, and deletes rows, writes and unreferenced elements in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator
from typing import Any, Final

from pyrula_core.ports import ListPartitions, Op, Record, RecordRange, ScanRecords
from pyrula_langgraph.checkpoint_rows import (
    GENERATION_KEY,
    CheckpointRow,
    batches_prefix,
    checkpoint_key,
    checkpoints_prefix,
    element_key,
    end_of,
    pack_checkpoint,
    unpack_batch,
)
from pyrula_langgraph.elements import Elements
from pyrula_langgraph.node_wire import full
from pyrula_langgraph.saver_memory import Known
from pyrula_langgraph.saver_reads import Reading
from pyrula_langgraph.saver_writes import Flush, Session

__all__ = ["copy_thread", "delete_for_runs", "delete_thread", "prune"]

page_records: Final = 500
OWN_KEYS: Final = RecordRange(GENERATION_KEY, b"\x05")
DELTA_COUNTERS: Final = "counters_since_delta_snapshot"

Sweeping = Generator[Op[Any] | Flush, Any, None]
Identity = tuple[str, str]


def delete_thread(session: Session, thread: str) -> Sweeping:
    """Delete everything the saver stored of a thread."""
    session.memory.forget(thread)
    yield Flush(thread, (OWN_KEYS,))
    session.memory.forget(thread)


def prune(session: Session, threads: Collection[str], strategy: str) -> Sweeping:
    """Keep each namespace's newest checkpoint of the threads, or delete the threads."""
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"strategy={strategy!r} is not one of 'keep_latest' and 'delete'")
    for thread in threads:
        if strategy == "delete":
            yield from delete_thread(session, thread)
        else:
            yield from sweep(session, thread, lambda _, is_newest: is_newest)


def delete_for_runs(session: Session, run_ids: Collection[str]) -> Sweeping:
    """Delete the checkpoints of runs in every thread; later ones keep what they inherited."""
    gone = frozenset(run_ids)
    if not gone:
        return
    threads = yield ListPartitions()
    for thread in threads:
        yield from sweep(session, thread, lambda known, _: known.metadata.get("run_id") not in gone)


def copy_thread(session: Session, source: str, target: str) -> Sweeping:
    """Copy a thread's checkpoints, writes and elements under another id.

    Checkpoints come last, so that a copy cut short shows none that lacks a part.
    """
    yield Flush(target, (Record(GENERATION_KEY, os.urandom(8)),))
    session.memory.forget(target)
    for prefix in (element_key(), batches_prefix(), checkpoints_prefix(None)):
        start = prefix
        while page := (yield ScanRecords(source, start, end_of(prefix), limit=page_records)):
            yield Flush(target, tuple(Record(key, value) for key, value in page))
            start = page[-1][0] + b"\0"


class Survey:
    """What a thread holds, and which of it stays."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.known: dict[Identity, Known] = {}
        self.rows: dict[Identity, CheckpointRow] = {}
        self.kept: set[Identity] = set()

    def load(self) -> Generator[Op[Any], Any, None]:
        """Read every checkpoint of the thread."""
        for ns in (yield from self.reading.namespaces()):
            end = end_of(checkpoints_prefix(ns))
            while rows := (yield from self.reading.rows_below(ns, end)):
                for row in rows:
                    resolved = yield from self.reading.resolve(ns, row.checkpoint_id)
                    if resolved is not None:
                        self.known[ns, row.checkpoint_id] = resolved.known
                        self.rows[ns, row.checkpoint_id] = row
                end = checkpoint_key(ns, rows[-1].checkpoint_id)

    def choose(self, keep: Callable[[Known, bool], bool]) -> None:
        """Decide what stays: what ``keep`` says, and what its delta channels are rebuilt from."""
        newest = {ns: max(id_ for space, id_ in self.known if space == ns) for ns, _ in self.known}
        for (ns, id_), known in self.known.items():
            if keep(known, newest[ns] == id_):
                self.kept.add((ns, id_))
        for ns, id_ in tuple(self.kept):
            self.keep_ancestors(ns, id_)

    def keep_ancestors(self, ns: str, checkpoint_id: str) -> None:
        """Keep the ancestors whose writes a delta channel of this checkpoint is rebuilt from."""
        known = self.known[ns, checkpoint_id]
        lacking = set(known.metadata.get(DELTA_COUNTERS) or ()) - known.states.keys()
        current = self.rows[ns, checkpoint_id].parent_id
        while lacking and current is not None and (ns, current) in self.known:
            self.kept.add((ns, current))
            lacking -= self.known[ns, current].states.keys()
            current = self.rows[ns, current].parent_id

    def is_cut(self, ns: str, checkpoint_id: str) -> bool:
        """Return whether a kept checkpoint builds on one that goes."""
        row = self.rows[ns, checkpoint_id]
        while row.depth and row.parent_id is not None:
            if (ns, row.parent_id) not in self.kept:
                return True
            row = self.rows[ns, row.parent_id]
        return False


def sweep(session: Session, thread: str, keep: Callable[[Known, bool], bool]) -> Sweeping:
    """Delete the checkpoints of a thread that ``keep`` does not want, and what only they used."""
    survey = Survey(Reading(thread, session.codec))
    yield from survey.load()
    survey.choose(keep)
    if len(survey.kept) == len(survey.known):
        return
    yield Flush(thread, (Record(GENERATION_KEY, os.urandom(8)),))
    # Read again: a writer that saw the old generation may have added rows until now.
    survey = Survey(Reading(thread, session.codec))
    yield from survey.load()
    survey.choose(keep)
    into = Elements(session.codec, set())
    wires = {place: survey.rows[place].channels for place in survey.kept}
    records: list[Record | RecordRange] = []
    for ns, id_ in survey.kept:
        row = survey.rows[ns, id_]
        is_orphan = row.parent_id is not None and (ns, row.parent_id) not in survey.kept
        if is_orphan or survey.is_cut(ns, id_):
            row = standalone(row, survey.known[ns, id_], into, is_orphan=is_orphan)
            wires[ns, id_] = row.channels
            sealed = session.codec.seal(pack_checkpoint(row))
            records.append(Record(checkpoint_key(ns, id_), sealed))
    for ns, id_ in survey.known.keys() - survey.kept:
        prefix = batches_prefix(ns, id_)
        records.append(Record(checkpoint_key(ns, id_), None))
        records.append(RecordRange(prefix, end_of(prefix)))
    fresh = [
        Record(element_key(digest), session.codec.seal(raw)) for digest, raw in into.fresh.items()
    ]
    nodes = [node for channels in wires.values() for node in channels.values()]
    nodes += yield from kept_write_nodes(survey)
    survey.reading.raw.update(into.fresh)
    marked = yield from survey.reading.mark(nodes)
    dead = yield from unmarked(thread, marked)
    yield Flush(thread, (*fresh, *records, *dead))
    session.memory.forget(thread)


def standalone(
    row: CheckpointRow, known: Known, into: Elements, *, is_orphan: bool
) -> CheckpointRow:
    """Return a row that needs no ancestor, under the stamp its children know."""
    return CheckpointRow(
        checkpoint_id=row.checkpoint_id,
        parent_id=None if is_orphan else row.parent_id,
        stamp=row.stamp,
        parent_stamp=None,
        depth=0,
        ts=row.ts,
        versions=[known.versions, []],
        seen=[known.seen, []],
        metadata=[into.codec.encode(known.metadata), []],
        channels={name: full(state, into) for name, state in known.states.items()},
        rest=row.rest,
    )


def kept_write_nodes(survey: Survey) -> Generator[Op[Any], Any, list[Any]]:
    """Return the nodes of the writes that stay: those of every checkpoint that does not go."""
    gone = [batches_prefix(ns, id_) for ns, id_ in survey.known.keys() - survey.kept]
    prefix = batches_prefix()
    start = prefix
    nodes: list[Any] = []
    thread, codec = survey.reading.thread, survey.reading.codec
    dropped = frozenset(gone)
    lengths = sorted({len(key) for key in gone})
    while page := (yield ScanRecords(thread, start, end_of(prefix), limit=page_records)):
        for key, stored in page:
            if not any(key[:length] in dropped for length in lengths):
                nodes += [node for _, _, node in unpack_batch(codec.open(stored)).writes]
        start = page[-1][0] + b"\0"
    return nodes


def unmarked(
    thread: str, marked: Collection[bytes]
) -> Generator[Op[Any], Any, list[Record | RecordRange]]:
    """Return the deletions of the elements that nothing refers to any more."""
    dead: list[Record | RecordRange] = []
    prefix = element_key()
    start = prefix
    while page := (yield ScanRecords(thread, start, end_of(prefix), limit=page_records)):
        dead += [Record(key, None) for key, _ in page if key[len(prefix) :] not in marked]
        start = page[-1][0] + b"\0"
    return dead
