"""The stored form of states: in full, or as what changed since the parent checkpoint.

Owns the grammar of nodes::

    node = bytes                                 inline value, or address of an element
         | [SEQ, kind, [chunk...], [node...]]    a list or string in full; chunks hold 64 nodes each
         | [SPLICE, keep, drop, [node...], ...]  from the parent's: keep some, drop some, put some
         | [RECORD, {key: node}]                 a dict in full, in order
         | [PATCH, [removed...], {key: node}]    from the parent's: new keys come last
         | [SAME]                                as the parent's
         | [PACKET, node name, timeout, node]    a Send
         | [SNAPSHOT, node]                      a delta channel's full value

Every function here takes values and returns values.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import ormsgpack

from pyrula_core.errors import JournalError
from pyrula_langgraph.elements import Elements, is_tree
from pyrula_langgraph.shapes import Leaf, Packet, Record, Seq, SeqKind, Snapshot, State

__all__ = ["chunk_items", "delta", "full", "parse", "references"]

chunk_items: Final = 64

Raw = Callable[[bytes], "bytes | None"]


class Tag(IntEnum):
    """The first element of a node that is no bytes."""

    SEQ = 1
    SPLICE = 2
    RECORD = 3
    PATCH = 4
    SAME = 5
    PACKET = 6
    SNAPSHOT = 7


SAME: Final = [int(Tag.SAME)]


def full(state: State, into: Elements) -> Any:
    """Return the node of a state that stands on its own."""
    match state:
        case Leaf():
            return state.node
        case Seq():
            count = len(state.nodes) // chunk_items if len(state.nodes) > chunk_items else 0
            extend_chunks(state, count, into)
            tail = state.nodes[count * chunk_items :]
            return [int(Tag.SEQ), int(state.kind), state.chunks[:count], tail]
        case Record():
            fields = {key: full(child, into) for key, child in state.fields.items()}
            return [int(Tag.RECORD), fields]
        case Packet():
            arg = into.tree(full(state.arg, into))
            return [int(Tag.PACKET), state.node, state.timeout, arg]
        case Snapshot():
            return [int(Tag.SNAPSHOT), full(state.inner, into)]


def extend_chunks(state: Seq, count: int, into: Elements) -> None:
    """Make the first ``count`` chunks of a sequence known and stored."""
    for place in range(count):
        known = state.chunks[place] if place < len(state.chunks) else None
        if known is None or not into.has(known):
            first = place * chunk_items
            state.chunks[place:] = [into.chunk(state.nodes[first : first + chunk_items])]


def delta(old: State | None, new: State, into: Elements) -> Any:
    """Return the node of ``new`` as a change of ``old``, or in full where that says less."""
    if old is new:
        return SAME
    match old, new:
        case Leaf(), Leaf():
            return SAME if old.node == new.node else new.node
        case Seq(), Seq() if old.kind == new.kind:
            return splice(old, new, into)
        case Record(), Record():
            return patch(old, new, into)
        case _:
            return full(new, into)


def patch(old: Record, new: Record, into: Elements) -> Any:
    """Return the change of a dict, or the dict in full when its order cannot be kept."""
    removed = [key for key in old.fields if key not in new.fields]
    kept = [key for key in old.fields if key in new.fields]
    added = [key for key in new.fields if key not in old.fields]
    if kept + added != list(new.fields):
        return full(new, into)
    changed = {}
    for key in new.fields:
        node = delta(old.fields.get(key), new.fields[key], into)
        if node is not SAME:
            changed[key] = node
    return [int(Tag.PATCH), removed, changed] if removed or changed else SAME


def splice(old: Seq, new: Seq, into: Elements) -> Any:
    """Return the change of a sequence, or the sequence in full when that is shorter."""
    before, after = old.nodes, new.nodes
    if before == after:
        return SAME
    head = common(before, after)
    most = min(len(before), len(after)) - head
    tail = 0
    while tail < most and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    moves = edits(before, after, head, tail)
    put = sum(len(nodes) for nodes in moves[2::3])
    if put > chunk_items and put >= len(after) // 2:
        return full(new, into)
    return [int(Tag.SPLICE), *moves]


def common(before: list[Any], after: list[Any]) -> int:
    """Return how many leading nodes are equal."""
    if after[: len(before)] == before:
        return len(before)
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def edits(before: list[Any], after: list[Any], head: int, tail: int) -> list[Any]:
    """Return triples of keep, drop and put that turn ``before`` into ``after``."""
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    paired = min(len(old), len(new))
    differing = [place for place in range(paired) if old[place] != new[place]]
    if not paired or len(differing) > paired // 2:
        return [head, len(old), new]
    moves: list[Any] = []
    done = -head
    for place in differing:
        moves += [place - done, 1, [new[place]]]
        done = place + 1
    rest = [paired - done, len(old) - paired, new[paired:]]
    return moves + rest if len(old) != paired or len(new) != paired else moves


def spliced(old: Seq, moves: list[Any]) -> Seq:
    """Return a sequence after its change."""
    nodes: list[Any] = []
    at = 0
    for place in range(0, len(moves), 3):
        keep, drop, put = moves[place : place + 3]
        nodes += old.nodes[at : at + keep]
        nodes += put
        at += keep + drop
    if at > len(old.nodes):
        raise JournalError("a checkpoint changes more of its parent's list than there is")
    return Seq(old.kind, nodes + old.nodes[at:])


def parse(node: Any, old: State | None, raw: Raw) -> State:
    """Return the state of a node; ``raw`` answers the bytes of chunks and trees."""
    if type(node) is bytes:
        return parse(fetched(node[1:], raw), None, raw) if is_tree(node) else Leaf(node)
    tag, *rest = node
    if tag == Tag.SAME and old is not None:
        return old
    if tag == Tag.SPLICE and isinstance(old, Seq):
        return spliced(old, rest)
    if tag == Tag.PATCH and isinstance(old, Record):
        removed, changed = rest
        fields = {key: child for key, child in old.fields.items() if key not in set(removed)}
        for key, child in changed.items():
            fields[key] = parse(child, old.fields.get(key), raw)
        return Record(fields)
    return parse_whole(tag, rest, raw)


def parse_whole(tag: int, rest: list[Any], raw: Raw) -> State:
    """Return the state of a node that stands on its own."""
    if tag == Tag.SEQ:
        kind, chunks, tail = rest
        nodes = [node for chunk in chunks for node in fetched(chunk, raw)]
        return Seq(SeqKind(kind), nodes + tail, chunks=list(chunks))
    if tag == Tag.RECORD:
        return Record({key: parse(child, None, raw) for key, child in rest[0].items()})
    if tag == Tag.PACKET:
        return Packet(rest[0], rest[1], parse(rest[2], None, raw))
    if tag == Tag.SNAPSHOT:
        return Snapshot(parse(rest[0], None, raw))
    raise JournalError(f"a checkpoint holds a node of unknown kind {tag!r}, or lacks its parent's")


def fetched(digest: bytes, raw: Raw) -> Any:
    """Return the node or nodes that an element holds."""
    plain = raw(digest)
    if plain is None:
        raise JournalError(f"element {digest.hex()} of a checkpoint is missing")
    return ormsgpack.unpackb(plain)


def references(node: Any, raw: Raw, leaves: set[bytes], inner: set[bytes]) -> None:
    """Collect what a node refers to: ``leaves`` hold values, ``inner`` hold further nodes.

    It looks into inner elements as far as ``raw`` can answer them.
    """
    if type(node) is bytes:
        if is_tree(node):
            follow(node[1:], raw, leaves, inner)
        elif node[0]:
            leaves.add(node[1:])
    elif type(node) is dict:
        for child in node.values():
            references(child, raw, leaves, inner)
    elif type(node) is list:
        if node and node[0] == Tag.SEQ and len(node) == 4:
            for digest in node[2]:
                follow(digest, raw, leaves, inner)
            node = node[3]
        for child in node:
            references(child, raw, leaves, inner)


def follow(digest: bytes, raw: Raw, leaves: set[bytes], inner: set[bytes]) -> None:
    """Collect what an inner element refers to."""
    inner.add(digest)
    plain = raw(digest)
    if plain is not None:
        references(ormsgpack.unpackb(plain), raw, leaves, inner)
