"""The base of all store operations, and those on records.

Records are ordered keys and values beside a journal, written in the same transaction as its events:
an adapter keeps there what is not an event. Must never do IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyrula_core.model import Controls, RunKey

__all__ = [
    "Appended",
    "Fenced",
    "Frame",
    "ListPartitions",
    "Op",
    "ReadRecords",
    "Record",
    "RecordRange",
    "Records",
    "ScanRecords",
    "WriteRecords",
]

R_co = TypeVar("R_co", covariant=True)

Frame = tuple[int, bytes]
"""A stored event: its sequence number and its sealed frame (see ``pyrula_core.codec``)."""


class Op(Generic[R_co]):
    """An operation on a store; the type parameter is what it answers."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One key of a partition and its value; a value of None deletes the key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Deletes every key ``start <= key < end`` of a partition."""

    start: bytes
    end: bytes


Records = Sequence[Record | RecordRange]


@dataclass(frozen=True, slots=True)
class Appended:
    """The events are durable; ``seq`` is now the last one's number."""

    seq: int
    controls: Controls


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another epoch holds the run, or nobody does; the caller may write nothing more."""

    epoch: int


@dataclass(frozen=True, slots=True)
class WriteRecords(Op[Appended | Fenced]):
    """Apply records to a partition in order, in one transaction.

    With ``fence``, the write is refused as ``Fenced`` unless that run's epoch is still ``epoch``.
    """

    partition: str
    records: Records
    fence: RunKey | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ReadRecords(Op["tuple[bytes | None, ...]"]):
    """Answer the values of ``keys`` of a partition, None where a key is absent."""

    partition: str
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ScanRecords(Op["tuple[tuple[bytes, bytes], ...]"]):
    """Answer keys and values ``start <= key < end`` in bytewise order, ``limit`` at most.

    ``limit`` None means all; ``reverse`` starts at the end.
    """

    partition: str
    start: bytes
    end: bytes
    limit: int | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class ListPartitions(Op["tuple[str, ...]"]):
    """Answer, in order, the partitions that hold at least one record and start with ``prefix``."""

    prefix: str = ""
