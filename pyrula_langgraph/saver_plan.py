"""Plans what a checkpoint or a task's writes add to the store. Pure: no store, no clock.

Owns the rules of inheritance: a channel is the parent's when it is not among the new versions and
both checkpoints give it the same version; whatever else the checkpoint holds is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint

from pyrula_core.errors import ResultNotSerializable
from pyrula_core.ports import Record
from pyrula_langgraph._compat import CONTROL_CHANNELS, ERROR, ERROR_SOURCE_NODE
from pyrula_langgraph.checkpoint_rows import (
    BatchRow,
    CheckpointRow,
    batch_key,
    checkpoint_key,
    element_key,
    pack_batch,
    pack_checkpoint,
)
from pyrula_langgraph.elements import Elements
from pyrula_langgraph.evolve import evolve
from pyrula_langgraph.node_wire import SAME, delta, full
from pyrula_langgraph.saver_memory import Known
from pyrula_langgraph.shapes import Seq, State

__all__ = ["Plan", "Task", "changes", "plan_batch", "plan_checkpoint"]

depth_max: Final = 64
OWN_FIELDS: Final = frozenset({"id", "ts", "channel_values", "channel_versions", "versions_seen"})


@dataclass(frozen=True, slots=True)
class Plan:
    """Records to write, and what is known once they are durable."""

    records: tuple[Record, ...]
    known: Known | None
    digests: set[bytes]


@dataclass(frozen=True, slots=True)
class Task:
    """Which task wrote: its checkpoint, id, path and the number of the batch."""

    ns: str
    checkpoint_id: str
    task_id: str
    task_path: str
    number: int
    writer: bytes


def plan_checkpoint(
    parent: Known | None,
    checkpoint: Checkpoint,
    metadata: dict[str, Any],
    new_versions: Mapping[str, Any],
    into: Elements,
    *,
    ns: str,
    parent_id: str | None,
    stamp: bytes,
    verify: bool,
) -> Plan:
    """Return the plan of a checkpoint; raises ResultNotSerializable naming the channel."""
    depth = 0 if parent is None or parent.depth + 1 >= depth_max else parent.depth + 1
    versions = dict(checkpoint["channel_versions"])
    seen = {node: dict(channels) for node, channels in checkpoint["versions_seen"].items()}
    inherited = inherited_channels(parent, versions, new_versions)
    states = next_states(inherited, parent, checkpoint, into, verify=verify)
    base = None if depth == 0 else parent
    rest = {key: value for key, value in checkpoint.items() if key not in OWN_FIELDS}
    row = CheckpointRow(
        checkpoint_id=checkpoint["id"],
        parent_id=parent_id,
        stamp=stamp,
        parent_stamp=None if base is None else base.stamp,
        depth=depth,
        ts=checkpoint["ts"],
        versions=changes({} if base is None else base.versions, versions),
        seen=changes({} if base is None else base.seen, seen),
        metadata=coded_changes({} if base is None else base.metadata, metadata, into),
        channels=channel_nodes(base, states, into),
        removed=[] if base is None else [name for name in base.states if name not in states],
        rest=into.codec.encode(rest),
    )
    known = Known(checkpoint["id"], stamp, depth, versions, seen, metadata, states)
    return planned(into, checkpoint_key(ns, checkpoint["id"]), pack_checkpoint(row), known)


def planned(into: Elements, key: bytes, row: bytes, known: Known | None) -> Plan:
    """Return the plan that writes a row and the elements it needs, the elements first."""
    seal = into.codec.seal
    elements = [Record(element_key(digest), seal(raw)) for digest, raw in into.fresh.items()]
    return Plan((*elements, Record(key, seal(row))), known, set(into.fresh))


def inherited_channels(
    parent: Known | None, versions: Mapping[str, Any], new_versions: Mapping[str, Any]
) -> dict[str, State]:
    """Return the parent's states that hold unchanged in a checkpoint with these versions."""
    if parent is None:
        return {}
    return {
        name: state
        for name, state in parent.states.items()
        if name in versions
        and name not in new_versions
        and parent.versions.get(name) == versions[name]
    }


def next_states(
    inherited: dict[str, State],
    parent: Known | None,
    checkpoint: Checkpoint,
    into: Elements,
    *,
    verify: bool,
) -> dict[str, State]:
    """Return the state of every channel of a checkpoint."""
    states = dict(inherited)
    before: Mapping[str, State] = {} if parent is None else parent.states
    for name, value in checkpoint["channel_values"].items():
        if name not in inherited:
            try:
                states[name] = evolve(before.get(name), value, into, verify=verify)
            except ResultNotSerializable as error:
                raise located(error, name, value, into, "the state holds") from error
    return states


def channel_nodes(base: Known | None, states: dict[str, State], into: Elements) -> dict[str, Any]:
    """Return the nodes of the channels that changed, or of all when there is no base."""
    if base is None:
        return {name: full(state, into) for name, state in states.items()}
    nodes = {}
    for name, state in states.items():
        old = base.states.get(name)
        node = SAME if old is state else delta(old, state, into)
        if node is not SAME:
            nodes[name] = node
    return nodes


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Any]:
    """Return which entries of a mapping are new or other, and which are gone."""
    changed = {key: value for key, value in new.items() if old.get(key) != value or key not in old}
    return [changed, [key for key in old if key not in new]]


def coded_changes(old: Mapping[str, Any], new: Mapping[str, Any], into: Elements) -> list[Any]:
    """Return the changes of a mapping of user values, the values encoded."""
    changed, removed = changes(old, new)
    return [into.codec.encode(changed), removed]


def plan_batch(
    head: Known | None, task: Task, writes: Sequence[tuple[str, Any]], into: Elements
) -> Plan:
    """Return the plan of a task's writes; raises ResultNotSerializable naming task and channel.

    ``head`` is the checkpoint they were written at, where it is at hand: a list or string that
    continues its channel's value is then stored as that value and what was added.
    """
    stored = []
    for index, channel, value in kept_writes(writes):
        old = None if head is None else continued(head.states.get(channel), value)
        try:
            stored.append((index, channel, full(evolve(old, value, into), into)))
        except ResultNotSerializable as error:
            who = f"task {task.task_path or task.task_id!r} wrote"
            raise located(error, channel, value, into, who) from error
    key = batch_key(task.ns, task.checkpoint_id, task.task_id, task.number, task.writer)
    return planned(into, key, pack_batch(BatchRow(task.task_id, task.task_path, stored)), None)


def continued(old: State | None, value: Any) -> State | None:
    """Return the state of a channel that a written value goes on from, else None."""
    if type(value) is str or type(value) is dict:
        return old
    if type(value) is list and isinstance(old, Seq) and type(old.value) is list:
        return old if value and old.value and value[0] is old.value[0] else None
    return None


def kept_writes(writes: Sequence[tuple[str, Any]]) -> list[tuple[int, str, Any]]:
    """Return the writes to keep, with their places.

    A task that wrote its result and then failed in its router has an error and no handler. Its
    result must not be kept: on resume the task would count as done and nothing would be routed
    (langgraph issue 8834).
    """
    channels = {channel for channel, _ in writes}
    failed = ERROR in channels and ERROR_SOURCE_NODE not in channels
    return [
        (WRITES_IDX_MAP.get(channel, place), channel, value)
        for place, (channel, value) in enumerate(writes)
        if not failed or channel in CONTROL_CHANNELS
    ]


def located(
    error: ResultNotSerializable, channel: str, value: Any, into: Elements, who: str
) -> ResultNotSerializable:
    """Return the error with the whole path: an item was encoded by itself, so its own is short."""
    try:
        into.codec.encode(value)
    except ResultNotSerializable as whole:
        error = whole
    path = f"$.{channel}{error.path[1:]}"
    why = str(error).split(" is a ", 1)[-1]
    message = f"{who} channel {channel!r}, where {path} is a {why}"
    return ResultNotSerializable(message, path=path, type_path=error.type_path)
