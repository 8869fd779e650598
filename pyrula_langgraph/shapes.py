"""What a channel's value is made of, as far as the next checkpoint can share it.

Owns the states a value is remembered in and the rule that picks one. A state holds nodes (inline
bytes, addresses of elements, or nested wire forms), and, in the process that made or read it, the
objects themselves, so that the next value can be compared with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from langgraph.types import Send

from pyrula_langgraph._compat import DeltaSnapshot
from pyrula_langgraph.mutation import OPAQUE, Watch

__all__ = ["Leaf", "Packet", "Record", "Seq", "SeqKind", "Shape", "Snapshot", "State", "shape_of"]

text_chars_min: Final = 1024
run_items_min: Final = 64
run_text_chars_max: Final = 64
record_weight_min: Final = 512
bulky_weight: Final = 4096
object_weight: Final = 200
nesting_max: Final = 6

SCALARS: Final = frozenset({int, float, bool, type(None), str})


class Shape(IntEnum):
    """How a value is taken apart."""

    LEAF = 0
    ITEMS = 1
    TEXT = 2
    RUN = 3
    RECORD = 4
    PACKET = 5
    SNAPSHOT = 6


class SeqKind(IntEnum):
    """What the nodes of a sequence are: a list's items, pieces of a string, runs of scalars."""

    ITEMS = 0
    TEXT = 1
    RUN = 2


class Unset:
    """Stands for a value that this process has not seen."""


UNSET: Final = Unset()


@dataclass(slots=True)
class Leaf:
    """A value recorded as a whole."""

    node: bytes
    value: Any = UNSET
    watch: Watch = OPAQUE


@dataclass(slots=True)
class Seq:
    """A list or a string, one node per item or piece.

    ``value`` is a copy of the list (or the string), ``watches`` stand beside its items. ``chunks``
    are the addresses of the leading full chunks, as far as they are known; ``cursor`` is where the
    rolling check of older items goes on.
    """

    kind: SeqKind
    nodes: list[Any]
    value: Any = UNSET
    watches: list[Watch] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    cursor: int = 0


@dataclass(slots=True)
class Record:
    """A dict with string keys, each value in a state of its own."""

    fields: dict[str, State]


@dataclass(slots=True)
class Packet:
    """A ``Send``: its argument is taken apart, since it may hold the whole state."""

    node: str
    timeout: bytes
    arg: State


@dataclass(slots=True)
class Snapshot:
    """The full value that a delta channel stores now and then."""

    inner: State


State = Leaf | Seq | Record | Packet | Snapshot


def shape_of(value: Any, depth: int) -> Shape:
    """Return how to take a value apart that stands ``depth`` containers below its channel."""
    kind = type(value)
    if kind is list and depth < nesting_max:
        return list_shape(value, depth)
    if kind is str:
        return Shape.TEXT if len(value) >= text_chars_min and depth < nesting_max else Shape.LEAF
    if kind is dict and depth < nesting_max:
        least = record_weight_min if depth == 0 else bulky_weight
        if weight_of(value, least) >= least and all(type(key) is str for key in value):
            return Shape.RECORD if all(map(is_encodable, value)) else Shape.LEAF
    if kind is Send:
        return Shape.PACKET
    return Shape.SNAPSHOT if kind is DeltaSnapshot and depth == 0 else Shape.LEAF


def list_shape(value: list[Any], depth: int) -> Shape:
    """Return the shape of a list: scalars go in runs, anything else one by one."""
    if all_scalars(value):
        return Shape.RUN if len(value) >= run_items_min else Shape.LEAF
    if depth > 1 and weight_of(value, bulky_weight) < bulky_weight:
        return Shape.LEAF
    return Shape.ITEMS


def all_scalars(value: list[Any]) -> bool:
    """Return whether a list holds numbers, None and short strings only."""
    if value and type(value[-1]) not in SCALARS:
        return False
    if not set(map(type, value)) <= SCALARS:
        return False
    return all(len(item) <= run_text_chars_max for item in value if type(item) is str)


def is_encodable(key: str) -> bool:
    """Return whether a key can stand in a row natively."""
    return key.isascii() or not any("\ud800" <= char <= "\udfff" for char in key)


def weight_of(value: Any, enough: int) -> int:
    """Return roughly how many bytes a value takes, looking no further than ``enough``."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is dict or kind is list or kind is tuple:
        total = 8
        for part in value.items() if kind is dict else value:
            total += weight_of(part, enough - total)
            if total >= enough:
                break
        return total
    if kind is Send:
        return weight_of(value.arg, enough)
    return 8 if kind in SCALARS else object_weight
