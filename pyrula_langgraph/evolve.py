"""Makes the state of a channel's new value out of the state of the one before.

Owns the reuse of what is unchanged. An item that is the same object as before keeps its node when
it provably did not change; near the end of a list it is encoded again otherwise, further back it is
compared attribute by attribute, a part of the list at a time. ``verify`` encodes everything again.
"""

from __future__ import annotations

from operator import is_
from typing import Any, Final

from pyrula_langgraph.elements import Elements
from pyrula_langgraph.mutation import FIXED, OPAQUE, certainly_same, probably_same, watch
from pyrula_langgraph.node_wire import chunk_items, full
from pyrula_langgraph.shapes import (
    UNSET,
    Leaf,
    Packet,
    Record,
    Seq,
    SeqKind,
    Shape,
    Snapshot,
    State,
    shape_of,
)

__all__ = ["evolve"]

tail_items: Final = 64
older_items_per_step: Final = 128


def evolve(
    old: State | None, value: Any, into: Elements, *, verify: bool = False, depth: int = 0
) -> State:
    """Return the state of ``value``; new elements go to ``into``, ``old`` is left as it is."""
    match shape_of(value, depth):
        case Shape.ITEMS:
            return items(seq_of(old, SeqKind.ITEMS), value, into, verify=verify, depth=depth)
        case Shape.RUN:
            return run(seq_of(old, SeqKind.RUN), value, into)
        case Shape.TEXT:
            return text(seq_of(old, SeqKind.TEXT), value, into)
        case Shape.RECORD:
            before = old.fields if isinstance(old, Record) else {}
            return Record(
                {
                    key: evolve(before.get(key), item, into, verify=verify, depth=depth + 1)
                    for key, item in value.items()
                }
            )
        case Shape.PACKET:
            arg = evolve(None, value.arg, into, depth=depth + 1)
            return Packet(value.node, into.leaf(value.timeout), arg)
        case Shape.SNAPSHOT:
            return Snapshot(evolve(None, value.value, into, depth=depth))
        case _:
            return leaf(old, value, into, verify=verify)


def seq_of(old: State | None, kind: SeqKind) -> Seq | None:
    """Return the old state when it is a sequence of that kind whose value is at hand."""
    if isinstance(old, Seq) and old.kind == kind and old.value is not UNSET:
        return old
    return None


def leaf(old: State | None, value: Any, into: Elements, *, verify: bool) -> Leaf:
    """Return the state of a value recorded as a whole; an unchanged one is the old state itself."""
    same = old if isinstance(old, Leaf) and old.value is value else None
    if same is not None and not verify and certainly_same(value, same.watch):
        return same
    node = into.leaf(value)
    if same is not None and same.node == node:
        return same
    return Leaf(node, value, watch(value))


def node_of(value: Any, into: Elements, depth: int) -> Any:
    """Return the node of one item of a list."""
    state = evolve(None, value, into, depth=depth + 1)
    return state.node if type(state) is Leaf else into.tree(full(state, into))


def run(old: Seq | None, value: list[Any], into: Elements) -> Seq:
    """Return the state of a list of scalars: an appended part is a node of its own."""
    if old is not None and len(old.value) <= len(value) and all(map(is_, old.value, value)):
        grown = value[len(old.value) :]
        nodes = [*old.nodes, into.leaf(grown)] if grown else old.nodes
        return Seq(SeqKind.RUN, nodes, list(value), chunks=whole_chunks(old))
    return Seq(SeqKind.RUN, [into.leaf(value)], list(value))


def whole_chunks(old: Seq) -> list[bytes]:
    """Return a copy of the old state's known chunks: two children may grow from one parent."""
    return old.chunks[: len(old.nodes) // chunk_items]


def text(old: Seq | None, value: str, into: Elements) -> Seq:
    """Return the state of a long string: an appended part is a node of its own."""
    if old is not None and value.startswith(old.value):
        grown = value[len(old.value) :]
        nodes = [*old.nodes, into.leaf(grown)] if grown else old.nodes
        return Seq(SeqKind.TEXT, nodes, value, chunks=whole_chunks(old))
    return Seq(SeqKind.TEXT, [into.leaf(value)], value)


def items(old: Seq | None, value: list[Any], into: Elements, *, verify: bool, depth: int) -> Seq:
    """Return the state of a list, item by item."""
    if old is None:
        nodes = [node_of(item, into, depth) for item in value]
        return Seq(SeqKind.ITEMS, nodes, list(value), list(map(watch, value)))
    if all(map(is_, old.value, value)):
        kept = min(len(old.value), len(value))
        new = Seq(SeqKind.ITEMS, old.nodes[:kept], list(value), old.watches[:kept])
        new.nodes += [node_of(item, into, depth) for item in value[kept:]]
        new.watches += map(watch, value[kept:])
        reused = kept
    else:
        new = rearranged(old, value, into, depth)
        reused = len(value)
    new.cursor = old.cursor
    recheck(new, reused, into, verify=verify, depth=depth)
    new.chunks = old.chunks[: same_chunks(old, new)]
    return new


def rearranged(old: Seq, value: list[Any], into: Elements, depth: int) -> Seq:
    """Return the state of a list that was not merely appended to: items are found by identity."""
    places = {id(item): place for place, item in enumerate(old.value)}
    new = Seq(SeqKind.ITEMS, [], list(value))
    for item in value:
        place = places.get(id(item))
        if place is None:
            new.nodes.append(node_of(item, into, depth))
            new.watches.append(watch(item))
        else:
            new.nodes.append(old.nodes[place])
            new.watches.append(old.watches[place])
    return new


def recheck(new: Seq, reused: int, into: Elements, *, verify: bool, depth: int) -> None:
    """Encode again those reused items that changed in place."""
    last = max(0, reused - tail_items)
    tail = range(reused) if verify else range(last, reused)
    for place in tail:
        if verify or not certainly_same(new.value[place], new.watches[place]):
            renew(new, place, into, depth)
    if verify or not last:
        return
    first = new.cursor if new.cursor < last else 0
    new.cursor = min(last, first + older_items_per_step)
    for place in range(first, new.cursor):
        if not probably_same(new.value[place], new.watches[place]):
            renew(new, place, into, depth)


def renew(new: Seq, place: int, into: Elements, depth: int) -> None:
    """Encode one item again."""
    value = new.value[place]
    if new.watches[place] is FIXED:
        return
    new.nodes[place] = node_of(value, into, depth)
    if new.watches[place] is not OPAQUE:
        new.watches[place] = watch(value)


def same_chunks(old: Seq, new: Seq) -> int:
    """Return how many of the old state's known chunks hold in the new one."""
    known = min(len(old.chunks), len(old.nodes) // chunk_items)
    while known and old.nodes[: known * chunk_items] != new.nodes[: known * chunk_items]:
        known //= 2
    return known
