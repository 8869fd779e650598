"""Writes checkpoints and tasks' writes. Every function is a generator of operations and flushes.

Owns the order of things: what is remembered changes only after a flush was acknowledged, and a
write that referred to elements of an older generation is made again in full.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.checkpoint.base import EXCLUDED_METADATA_KEYS, Checkpoint

from pyrula_core.errors import StoreUnavailable
from pyrula_core.ports import Op, ReadRecords, Record, RecordRange
from pyrula_langgraph._compat import ERROR, INTERRUPT
from pyrula_langgraph.checkpoint_rows import GENERATION_KEY
from pyrula_langgraph.elements import Elements, ValueCodec
from pyrula_langgraph.facts import CheckpointFact, SaverFact, TaskFact
from pyrula_langgraph.saver_memory import Known, Memory, ThreadMemory
from pyrula_langgraph.saver_plan import Plan, Task, plan_batch, plan_checkpoint
from pyrula_langgraph.saver_reads import Reading

__all__ = ["Flush", "Place", "Session", "put", "put_writes"]

rewrites_max: Final = 5
RECORDED_CONFIGURABLE: Final = frozenset({"run_id"})


@dataclass(frozen=True, slots=True)
class Flush:
    """Asks the driver to make records durable through the sink."""

    thread: str
    records: Sequence[Record | RecordRange]
    fact: SaverFact | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """What every operation of a saver shares; ``exclusive`` when a lease keeps others out."""

    codec: ValueCodec
    memory: Memory
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a config points: a thread, a namespace in it, and a checkpoint or the newest."""

    thread: str
    ns: str
    checkpoint_id: str | None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Place:
        """Return the place of a config."""
        configurable = config["configurable"]
        return cls(
            str(configurable["thread_id"]),
            configurable.get("checkpoint_ns") or "",
            configurable.get("checkpoint_id") or None,
        )


Writing = Generator[Op[Any] | Flush, Any, Any]


def put(
    session: Session,
    config: Mapping[str, Any],
    checkpoint: Checkpoint,
    metadata: Mapping[str, Any],
    new_versions: Mapping[str, Any],
) -> Writing:
    """Store a checkpoint as a child of the one ``config`` names."""
    place = Place.of(config)
    memory = session.memory.of(place.thread)
    merged = merged_metadata(config, metadata)
    stamp = os.urandom(8)
    fact = checkpoint_fact(place, checkpoint, merged)

    def plan(parent: Known | None) -> Plan:
        verify, memory.verify = memory.verify, False
        into = Elements(session.codec, memory.digests)
        return plan_checkpoint(
            parent,
            checkpoint,
            merged,
            new_versions,
            into,
            ns=place.ns,
            parent_id=place.checkpoint_id,
            stamp=stamp,
            verify=verify,
        )

    for _ in range(rewrites_max):
        yield from begin(memory, place.thread)
        parent = yield from parent_of(session, memory, place)
        generation = memory.generation
        with memory.lock:
            made = plan(parent)
            # Two children may grow from one parent: what it holds is moved on, not shared.
            memory.heads.pop(place.ns, None)
        yield from flushed(memory, place.thread, made, fact)
        if (yield from still(session, memory, place.thread, generation)):
            with memory.lock:
                memory.learn(place.ns, made.known, made.digests)
                memory.learn_batches(place.ns, checkpoint["id"], {})
            return
    raise changing(place.thread)


def put_writes(
    session: Session,
    config: Mapping[str, Any],
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> Writing:
    """Store a task's writes at the checkpoint ``config`` names."""
    place = Place.of(config)
    memory = session.memory.of(place.thread)
    checkpoint_id = place.checkpoint_id or ""
    for _ in range(rewrites_max):
        yield from begin(memory, place.thread)
        number = memory.next_batch(place.ns, checkpoint_id, task_id)
        if number is None:
            reading = Reading(place.thread, session.codec)
            counts = yield from reading.batch_counts(place.ns, checkpoint_id)
            memory.learn_batches(place.ns, checkpoint_id, counts)
            number = memory.next_batch(place.ns, checkpoint_id, task_id) or 0
        task = Task(place.ns, checkpoint_id, task_id, task_path, number, session.memory.writer)
        generation = memory.generation
        with memory.lock:
            head = memory.head(place.ns, checkpoint_id)
            made = plan_batch(head, task, writes, Elements(session.codec, memory.digests))
        yield from flushed(memory, place.thread, made, task_fact(task, writes, made))
        if (yield from still(session, memory, place.thread, generation)):
            with memory.lock:
                memory.learn(place.ns, None, made.digests)
            return
    raise changing(place.thread)


def changing(thread: str) -> StoreUnavailable:
    """Return the error for a thread whose records are deleted as fast as they are written."""
    return StoreUnavailable(
        f"thread {thread!r} is being deleted or pruned again and again while it is written",
        hint="Let one process at a time prune a thread, and only while no run is on it",
    )


def begin(memory: ThreadMemory, thread: str) -> Writing:
    """Learn the thread's generation, when this process has not yet."""
    if memory.generation is None:
        (generation,) = yield ReadRecords(thread, (GENERATION_KEY,))
        with memory.lock:
            if memory.generation is None:
                memory.reset(generation)
                memory.generation = generation or os.urandom(8)


def flushed(memory: ThreadMemory, thread: str, made: Plan, fact: SaverFact) -> Writing:
    """Make a plan durable, with the generation record where the thread has none yet."""
    records = made.records
    if not memory.is_written:
        records = (Record(GENERATION_KEY, memory.generation), *records)
    yield Flush(thread, records, fact)
    memory.is_written = True


def still(
    session: Session, memory: ThreadMemory, thread: str, generation: bytes | None
) -> Generator[Op[Any] | Flush, Any, bool]:
    """Return whether a write stands; if not, the thread is forgotten and it must be made again."""
    if session.exclusive:
        return memory.generation == generation
    (stored,) = yield ReadRecords(thread, (GENERATION_KEY,))
    if stored == generation == memory.generation:
        return True
    with memory.lock:
        if memory.generation != stored or stored is None:
            memory.reset(stored)
    return False


def parent_of(
    session: Session, memory: ThreadMemory, place: Place
) -> Generator[Op[Any] | Flush, Any, Known | None]:
    """Return the checkpoint a new one is a child of, read back when it is not at hand."""
    if place.checkpoint_id is None:
        return None
    known = memory.head(place.ns, place.checkpoint_id)
    if known is None:
        reading = Reading(place.thread, session.codec)
        resolved = yield from reading.resolve(place.ns, place.checkpoint_id)
        known = None if resolved is None else resolved.known
    return known


def merged_metadata(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata to store: LangGraph's own, the config's, and the run id.

    Unlike LangGraph's savers this leaves ``configurable`` out, since keys and tokens travel in it.
    """
    merged = dict(metadata)
    configurable = config.get("configurable") or {}
    beside = {key: configurable[key] for key in RECORDED_CONFIGURABLE if key in configurable}
    for source in (config.get("metadata") or {}, beside):
        for key, value in source.items():
            hidden = key in EXCLUDED_METADATA_KEYS or key.startswith("__")
            if key not in merged and not hidden and isinstance(value, (str, int, float)):
                merged[key] = value
    merged.pop("writes", None)
    return merged


def checkpoint_fact(
    place: Place, checkpoint: Checkpoint, metadata: Mapping[str, Any]
) -> CheckpointFact:
    """Return what the sink is told of a checkpoint."""
    return CheckpointFact(
        checkpoint_ns=place.ns,
        checkpoint_id=checkpoint["id"],
        step=metadata.get("step", -2),
        source=metadata.get("source", ""),
        run_id=metadata.get("run_id"),
        parent_id=place.checkpoint_id,
    )


def task_fact(task: Task, writes: Sequence[tuple[str, Any]], made: Plan) -> TaskFact:
    """Return what the sink is told of a task's writes."""
    errors = [value for channel, value in writes if channel == ERROR]
    raised = [value for channel, value in writes if channel == INTERRUPT]
    interrupts = [
        item
        for value in raised
        for item in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return TaskFact(
        checkpoint_ns=task.ns,
        checkpoint_id=task.checkpoint_id,
        task_id=task.task_id,
        task_path=task.task_path,
        channels=tuple(channel for channel, _ in writes),
        error=errors[-1] if errors and isinstance(errors[-1], BaseException) else None,
        interrupts=tuple(interrupts),
        bytes=sum(len(record.key) + len(record.value or b"") for record in made.records),
    )
