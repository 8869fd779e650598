"""Reads checkpoints back. Every function that needs the store is a generator of operations.

Owns the way from rows to ``CheckpointTuple``. Whoever drives the generator answers each operation,
blocking or awaiting; so the sync and the async API are one piece of code.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key

from pyrula_core.errors import JournalError
from pyrula_core.ports import Op, ReadRecords, ScanRecords
from pyrula_langgraph.checkpoint_rows import (
    CheckpointRow,
    batch_number,
    batches_prefix,
    checkpoint_key,
    checkpoints_prefix,
    element_key,
    end_of,
    id_of_key,
    ns_of_key,
    unpack_batch,
    unpack_checkpoint,
)
from pyrula_langgraph.elements import ValueCodec, digest_of
from pyrula_langgraph.node_wire import parse, references
from pyrula_langgraph.revive import Reviver
from pyrula_langgraph.saver_memory import Known
from pyrula_langgraph.shapes import Leaf, Packet, Record, Seq, Snapshot, State

__all__ = ["Reading", "Resolved", "Steps", "StoredWrite", "config_of"]

page_rows: Final = 65
page_elements: Final = 500

Steps = Generator[Op[Any], Any, Any]


@dataclass(slots=True)
class Resolved:
    """A checkpoint with everything it inherits, its values not decoded yet."""

    row: CheckpointRow
    known: Known


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """One recorded write of a task."""

    task_id: str
    task_path: str
    index: int
    channel: str
    node: Any


def config_of(thread: str, ns: str, checkpoint_id: str) -> Any:
    """Return the config that names a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
        }
    }


class Reading:
    """One reading of a thread; rows and elements are read once however often they are needed."""

    def __init__(self, thread: str, codec: ValueCodec) -> None:
        self.thread = thread
        self.codec = codec
        self.raw: dict[bytes, bytes] = {}
        self._rows: dict[tuple[str, str], CheckpointRow] = {}
        self._resolved: dict[tuple[str, str], Resolved] = {}

    # --- rows -----------------------------------------------------------------------------------

    def latest(self, ns: str) -> Generator[Op[Any], Any, str | None]:
        """Return the id of a namespace's newest checkpoint."""
        prefix = checkpoints_prefix(ns)
        rows = yield from self.rows_below(ns, end_of(prefix))
        return rows[0].checkpoint_id if rows else None

    def rows_below(self, ns: str, end: bytes) -> Generator[Op[Any], Any, list[CheckpointRow]]:
        """Return a page of a namespace's rows below a key, newest first."""
        start = checkpoints_prefix(ns)
        found = yield ScanRecords(self.thread, start, end, limit=page_rows, reverse=True)
        return [self.keep(ns, key, stored) for key, stored in found]

    def keep(self, ns: str, key: bytes, stored: bytes) -> CheckpointRow:
        """Return the row of a record, remembering it."""
        row = unpack_checkpoint(id_of_key(key), self.codec.open(stored))
        self._rows[ns, row.checkpoint_id] = row
        return row

    def row(self, ns: str, checkpoint_id: str) -> Generator[Op[Any], Any, CheckpointRow | None]:
        """Return one row, or None."""
        found = self._rows.get((ns, checkpoint_id))
        if found is None:
            key = checkpoint_key(ns, checkpoint_id)
            (stored,) = yield ReadRecords(self.thread, (key,))
            found = None if stored is None else self.keep(ns, key, stored)
        return found

    def namespaces(self) -> Generator[Op[Any], Any, list[str]]:
        """Return the namespaces that hold checkpoints, the root first."""
        found: list[str] = []
        start, end = checkpoints_prefix(None), end_of(checkpoints_prefix(None))
        while page := (yield ScanRecords(self.thread, start, end, limit=1)):
            found.append(ns_of_key(page[0][0]))
            start = end_of(checkpoints_prefix(found[-1]))
        return found

    # --- resolution -----------------------------------------------------------------------------

    def resolve(self, ns: str, checkpoint_id: str) -> Generator[Op[Any], Any, Resolved | None]:
        """Return a checkpoint with what it inherits, or None when there is none with that id."""
        chain = yield from self.chain(ns, checkpoint_id)
        if not chain:
            return self._resolved.get((ns, checkpoint_id))
        yield from self.fetch([node for row in chain for node in row.channels.values()], inner=True)
        for row in reversed(chain):
            parent = self._resolved.get((ns, row.parent_id)) if row.parent_id else None
            self._resolved[ns, row.checkpoint_id] = self.applied(row, parent)
        return self._resolved[ns, checkpoint_id]

    def chain(self, ns: str, checkpoint_id: str) -> Generator[Op[Any], Any, list[CheckpointRow]]:
        """Return the rows from a checkpoint back to one that stands on its own or is resolved."""
        chain: list[CheckpointRow] = []
        current: str | None = checkpoint_id
        while current is not None and (ns, current) not in self._resolved:
            row = yield from self.row(ns, current)
            if row is None:
                if chain:
                    raise JournalError(f"checkpoint {current}, which others build on, is missing")
                return []
            chain.append(row)
            if row.depth == 0:
                break
            if len(chain) == 1 and (ns, row.parent_id) not in self._rows:
                yield from self.rows_below(ns, checkpoint_key(ns, current))
            current = row.parent_id
        return chain

    def applied(self, row: CheckpointRow, parent: Resolved | None) -> Resolved:
        """Return the checkpoint of a row over its resolved parent."""
        base = None
        if row.depth:
            if parent is None or parent.known.stamp != row.parent_stamp:
                raise JournalError(
                    f"checkpoint {row.checkpoint_id} builds on checkpoint {row.parent_id}, "
                    "which has been replaced since",
                    hint="Restore the store from a backup, or go on from an earlier checkpoint",
                )
            base = parent.known
        states: dict[str, State] = {} if base is None else dict(base.states)
        for name in row.removed:
            states.pop(name, None)
        for name, node in row.channels.items():
            states[name] = parse(node, states.get(name), self.raw.get)
        metadata = [self.codec.decode(row.metadata[0]), row.metadata[1]]
        known = Known(
            row.checkpoint_id,
            row.stamp,
            row.depth,
            changed({} if base is None else base.versions, row.versions),
            changed({} if base is None else base.seen, row.seen),
            changed({} if base is None else base.metadata, metadata),
            states,
        )
        return Resolved(row, known)

    # --- elements -------------------------------------------------------------------------------

    def fetch(self, nodes: Iterable[Any], *, inner: bool = False) -> Steps:
        """Read the elements that nodes refer to; with ``inner`` only those that hold nodes."""
        nodes = list(nodes)
        while True:
            leaves: set[bytes] = set()
            inners: set[bytes] = set()
            for node in nodes:
                references(node, self.raw.get, leaves, inners)
            lacking = [digest for digest in inners if digest not in self.raw]
            if not lacking:
                break
            yield from self.load(lacking)
        if not inner:
            yield from self.load([digest for digest in leaves if digest not in self.raw])

    def mark(self, nodes: list[Any]) -> Generator[Op[Any], Any, set[bytes]]:
        """Return the digests of every element that nodes refer to, however deep."""
        yield from self.fetch(nodes, inner=True)
        leaves: set[bytes] = set()
        inners: set[bytes] = set()
        for node in nodes:
            references(node, self.raw.get, leaves, inners)
        return leaves | inners

    def load(self, digests: list[bytes]) -> Steps:
        """Read elements, checking each against its address; missing ones are left out."""
        for first in range(0, len(digests), page_elements):
            page = digests[first : first + page_elements]
            keys = tuple(map(element_key, page))
            found = yield ReadRecords(self.thread, keys)
            for digest, stored in zip(page, found, strict=True):
                if stored is None:
                    raise JournalError(
                        f"element {digest.hex()} of a checkpoint is missing",
                        hint="Restore the store from a backup, or go on from an earlier checkpoint",
                    )
                plain = self.codec.open(stored)
                if digest_of(plain) != digest:
                    raise JournalError(f"element {digest.hex()} of a checkpoint is damaged")
                self.raw[digest] = plain

    # --- tuples ---------------------------------------------------------------------------------

    def writes(self, ns: str, checkpoint_id: str) -> Generator[Op[Any], Any, list[StoredWrite]]:
        """Return a checkpoint's writes in ``writes_sort_key`` order.

        Of two writes of a task in one place the first counts, on a special channel the last.
        """
        prefix = batches_prefix(ns, checkpoint_id)
        found = yield ScanRecords(self.thread, prefix, end_of(prefix))
        merged: dict[tuple[str, int], StoredWrite] = {}
        for _, stored in found:
            batch = unpack_batch(self.codec.open(stored))
            for index, channel, node in batch.writes:
                place = (batch.task_id, index)
                if index < 0 or place not in merged:
                    write = StoredWrite(batch.task_id, batch.task_path, index, channel, node)
                    merged[place] = write
        return sorted(
            merged.values(), key=lambda w: writes_sort_key(w.task_path, w.task_id, w.index)
        )

    def batch_counts(self, ns: str, checkpoint_id: str) -> Generator[Op[Any], Any, dict[str, int]]:
        """Return the number of each task's next batch of writes at a checkpoint."""
        prefix = batches_prefix(ns, checkpoint_id)
        found = yield ScanRecords(self.thread, prefix, end_of(prefix))
        counts: dict[str, int] = {}
        for key, stored in found:
            task_id = unpack_batch(self.codec.open(stored)).task_id
            counts[task_id] = batch_number(key) + 1
        return counts

    def pending(self, writes: list[StoredWrite]) -> Generator[Op[Any], Any, list[PendingWrite]]:
        """Return writes with their values."""
        yield from self.fetch([write.node for write in writes])
        reviver = Reviver(self.codec, self.raw.get, keep=False)
        return [(write.task_id, write.channel, reviver.node(write.node)) for write in writes]

    def tuple_of(
        self, ns: str, resolved: Resolved, *, keep: bool
    ) -> Generator[Op[Any], Any, CheckpointTuple]:
        """Return a checkpoint as LangGraph wants it; ``keep`` lets its states know the objects."""
        row, known = resolved.row, resolved.known
        writes = yield from self.writes(ns, row.checkpoint_id)
        yield from self.fetch([node for state in known.states.values() for node in nodes_of(state)])
        reviver = Reviver(self.codec, self.raw.get, keep=keep)
        values = {name: reviver.value(state) for name, state in known.states.items()}
        checkpoint: Any = {
            **({} if row.rest is None else self.codec.decode(row.rest)),
            "id": row.checkpoint_id,
            "ts": row.ts,
            "channel_values": values,
            "channel_versions": dict(known.versions),
            "versions_seen": {node: dict(seen) for node, seen in known.seen.items()},
        }
        pending = yield from self.pending(writes)
        return CheckpointTuple(
            config=config_of(self.thread, ns, row.checkpoint_id),
            checkpoint=checkpoint,
            metadata=copied(known.metadata),
            parent_config=config_of(self.thread, ns, row.parent_id) if row.parent_id else None,
            pending_writes=pending,
        )


def copied(metadata: dict[str, Any]) -> Any:
    """Return metadata that a caller may change."""
    return {key: dict(item) if type(item) is dict else item for key, item in metadata.items()}


def changed(old: dict[str, Any], change: list[Any]) -> dict[str, Any]:
    """Return a mapping after a change."""
    put, removed = change
    new = {**old, **put}
    for key in removed:
        new.pop(key, None)
    return new


def nodes_of(state: State) -> Iterator[Any]:
    """Yield the nodes a state holds."""
    match state:
        case Leaf():
            yield state.node
        case Seq():
            yield from state.nodes
        case Record():
            for child in state.fields.values():
                yield from nodes_of(child)
        case Packet():
            yield state.timeout
            yield from nodes_of(state.arg)
        case Snapshot():
            yield from nodes_of(state.inner)
