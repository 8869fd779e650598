"""Answers what a thread holds: one checkpoint, its history, and a delta channel's writes.

Owns the walks. Every function is a generator of operations; ``listing`` yields its tuples among
them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

from pyrula_core.errors import JournalError
from pyrula_core.ports import ListPartitions, Op, ReadRecords
from pyrula_langgraph.checkpoint_rows import (
    GENERATION_KEY,
    checkpoint_key,
    checkpoints_prefix,
    end_of,
)
from pyrula_langgraph.revive import Reviver
from pyrula_langgraph.saver_memory import ThreadMemory
from pyrula_langgraph.saver_reads import Reading, Resolved, StoredWrite, nodes_of
from pyrula_langgraph.saver_writes import Place, Session
from pyrula_langgraph.shapes import State

__all__ = ["Query", "delta_history", "get_tuple", "listing"]

Listing = Generator[Op[Any] | CheckpointTuple, Any, None]


def get_tuple(
    session: Session, config: Mapping[str, Any]
) -> Generator[Op[Any], Any, CheckpointTuple | None]:
    """Return one checkpoint, and remember it as the thread's newest known one."""
    place = Place.of(config)
    memory = session.memory.of(place.thread)
    while True:
        (generation,) = yield ReadRecords(place.thread, (GENERATION_KEY,))
        if generation is None:
            return None
        try:
            return (yield from read_tuple(session, memory, place, generation))
        except JournalError:
            # A deletion in the middle of the reading looks like damage. Reading again tells.
            (now,) = yield ReadRecords(place.thread, (GENERATION_KEY,))
            if now == generation:
                raise


def read_tuple(
    session: Session, memory: ThreadMemory, place: Place, generation: bytes
) -> Generator[Op[Any], Any, CheckpointTuple | None]:
    """Return one checkpoint as of a generation."""
    reading = Reading(place.thread, session.codec)
    checkpoint_id = place.checkpoint_id or (yield from reading.latest(place.ns))
    if checkpoint_id is None:
        return None
    resolved = yield from reading.resolve(place.ns, checkpoint_id)
    if resolved is None:
        return None
    found = yield from reading.tuple_of(place.ns, resolved, keep=True)
    with memory.lock:
        if memory.generation != generation:
            memory.reset(generation)
        memory.learn(place.ns, resolved.known, set(reading.raw))
    return found


@dataclass(frozen=True, slots=True)
class Query:
    """Which checkpoints to list; None and an empty filter exclude nothing."""

    thread: str | None
    ns: str | None
    exact: str | None
    before: str | None
    filter: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any] | None,
        before: Mapping[str, Any] | None,
        filter: Mapping[str, Any] | None,
    ) -> Query:
        """Return the query of a call to ``list``."""
        where = {} if config is None else config["configurable"]
        thread = where.get("thread_id")
        below = {} if before is None else before["configurable"]
        return cls(
            thread=None if thread is None else str(thread),
            ns=where.get("checkpoint_ns"),
            exact=where.get("checkpoint_id") or None,
            before=below.get("checkpoint_id") or None,
            filter=filter or {},
        )

    def matches(self, resolved: Resolved) -> bool:
        """Return whether a checkpoint is wanted."""
        known = resolved.known
        if self.exact not in (None, known.checkpoint_id):
            return False
        return all(known.metadata.get(key) == wanted for key, wanted in self.filter.items())


def listing(session: Session, query: Query, limit: int | None) -> Listing:
    """Yield the checkpoints that match, of each namespace the newest first."""
    left = limit
    threads = (yield ListPartitions()) if query.thread is None else (query.thread,)
    for thread in threads:
        reading = Reading(thread, session.codec)
        namespaces = (yield from reading.namespaces()) if query.ns is None else [query.ns]
        for ns in namespaces:
            if left is not None and left <= 0:
                return
            left = yield from listed(reading, ns, query, left)


def listed(
    reading: Reading, ns: str, query: Query, left: int | None
) -> Generator[Op[Any] | CheckpointTuple, Any, int | None]:
    """Yield one namespace's matching checkpoints; return how many more are wanted."""
    end = end_of(checkpoints_prefix(ns))
    if query.before is not None:
        end = checkpoint_key(ns, query.before)
    if query.exact is not None:
        end = min(end, checkpoint_key(ns, query.exact) + b"\0")
    while rows := (yield from reading.rows_below(ns, end)):
        for row in rows:
            if left is not None and left <= 0:
                return left
            resolved = yield from reading.resolve(ns, row.checkpoint_id)
            if resolved is not None and query.matches(resolved):
                yield (yield from reading.tuple_of(ns, resolved, keep=False))
                left = None if left is None else left - 1
        if query.exact is not None:
            break
        end = checkpoint_key(ns, rows[-1].checkpoint_id)
    return left


def delta_history(
    session: Session, config: Mapping[str, Any], channels: Sequence[str]
) -> Generator[Op[Any], Any, dict[str, DeltaChannelHistory]]:
    """Return each channel's writes since the nearest ancestor that stores a value, and the value.

    One walk up the parents serves every channel; a channel leaves it where its value stands.
    """
    place = Place.of(config)
    reading = Reading(place.thread, session.codec)
    writes: dict[str, list[StoredWrite]] = {name: [] for name in channels}
    seeds: dict[str, State] = {}
    checkpoint_id = place.checkpoint_id or (yield from reading.latest(place.ns))
    row = None if checkpoint_id is None else (yield from reading.row(place.ns, checkpoint_id))
    current = None if row is None else row.parent_id
    while current is not None and len(seeds) < len(writes):
        resolved = yield from reading.resolve(place.ns, current)
        if resolved is None:
            break
        stored = yield from reading.writes(place.ns, current)
        for name in writes.keys() - seeds.keys():
            writes[name] = [write for write in stored if write.channel == name] + writes[name]
            if name in resolved.known.states:
                seeds[name] = resolved.known.states[name]
        current = resolved.row.parent_id
    return (yield from revived(reading, writes, seeds))


def revived(
    reading: Reading, writes: dict[str, list[StoredWrite]], seeds: dict[str, State]
) -> Generator[Op[Any], Any, dict[str, DeltaChannelHistory]]:
    """Return a delta history with its values."""
    yield from reading.fetch(node for state in seeds.values() for node in nodes_of(state))
    reviver = Reviver(reading.codec, reading.raw.get, keep=False)
    history: dict[str, DeltaChannelHistory] = {}
    for name, stored in writes.items():
        history[name] = {"writes": (yield from reading.pending(stored))}
        if name in seeds:
            history[name]["seed"] = reviver.value(seeds[name])
    return history
