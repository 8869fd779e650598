"""The saver's records inside a partition, which is a thread: their keys, and the rows in them.

Owns the key layout. The saver uses the keys whose first byte is 1 to 4, and no others::

    1                                    generation: 8 random bytes, replaced by every deletion
    2 ns id                              a checkpoint; ids sort bytewise, so the newest is the last
    3 ns id task number writer           one batch of a task's writes
    4 digest                             an element

``ns`` is length-prefixed, so that the records of one namespace are one range.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

import ormsgpack

from pyrula_core.errors import JournalError, JournalTooNew

__all__ = [
    "GENERATION_KEY",
    "BatchRow",
    "CheckpointRow",
    "batch_key",
    "batch_number",
    "batches_prefix",
    "checkpoint_key",
    "checkpoints_prefix",
    "element_key",
    "end_of",
    "id_of_key",
    "ns_of_key",
    "pack_batch",
    "pack_checkpoint",
    "unpack_batch",
    "unpack_checkpoint",
]

ROW_VERSION: Final = 1
GENERATION_KEY: Final = b"\x01"
CHECKPOINTS: Final = b"\x02"
BATCHES: Final = b"\x03"
ELEMENTS: Final = b"\x04"
UUID_MARK: Final = b"\x00"
CANONICAL_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(slots=True)
class CheckpointRow:
    """One checkpoint as stored.

    ``depth`` is how many ancestors must be read with it; 0 means that it stands on its own. Each
    row has a random ``stamp``, and says its parent's, so that a replaced parent is noticed. The
    three changes and ``channels`` are relative to the parent unless ``depth`` is 0.
    """

    checkpoint_id: str
    parent_id: str | None
    stamp: bytes
    parent_stamp: bytes | None
    depth: int
    ts: str
    versions: list[Any]
    seen: list[Any]
    metadata: list[Any]
    channels: dict[str, Any]
    removed: list[str] = field(default_factory=list)
    rest: bytes | None = None


@dataclass(slots=True)
class BatchRow:
    """The writes one ``put_writes`` brought: (index, channel, node) each."""

    task_id: str
    task_path: str
    writes: list[tuple[int, str, Any]]


def pack_text(text: str) -> bytes:
    """Return a string with its length before it."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(2, "big") + raw


def pack_id(text: str) -> bytes:
    """Return an id in a form that no other id's form starts with; UUIDs take 17 bytes."""
    if CANONICAL_UUID.fullmatch(text):
        return UUID_MARK + bytes.fromhex(text.replace("-", ""))
    return b"\x01" + pack_text(text)


def checkpoints_prefix(ns: str | None) -> bytes:
    """Return what the keys of a namespace's checkpoints start with, or those of all."""
    return CHECKPOINTS if ns is None else CHECKPOINTS + pack_text(ns)


def checkpoint_key(ns: str, checkpoint_id: str) -> bytes:
    """Return the key of a checkpoint."""
    return checkpoints_prefix(ns) + checkpoint_id.encode("utf-8", "surrogatepass")


def ns_of_key(key: bytes) -> str:
    """Return the namespace in a checkpoint's or a batch's key."""
    end = 3 + int.from_bytes(key[1:3], "big")
    return key[3:end].decode("utf-8", "surrogatepass")


def id_of_key(key: bytes) -> str:
    """Return the id in a checkpoint's key."""
    return key[3 + int.from_bytes(key[1:3], "big") :].decode("utf-8", "surrogatepass")


def batches_prefix(ns: str | None = None, checkpoint_id: str | None = None) -> bytes:
    """Return what the keys of writes start with: a checkpoint's, a namespace's, or all."""
    if ns is None:
        return BATCHES
    return BATCHES + pack_text(ns) + (pack_id(checkpoint_id) if checkpoint_id is not None else b"")


def batch_key(ns: str, checkpoint_id: str, task_id: str, number: int, writer: bytes) -> bytes:
    """Return the key of the ``number``-th batch of a task's writes; ``writer`` is 4 bytes."""
    prefix = batches_prefix(ns, checkpoint_id)
    return prefix + pack_id(task_id) + number.to_bytes(4, "big") + writer


def batch_number(key: bytes) -> int:
    """Return the number in a batch's key."""
    return int.from_bytes(key[-8:-4], "big")


def element_key(digest: bytes = b"") -> bytes:
    """Return the key of an element, or what all of them start with."""
    return ELEMENTS + digest


def end_of(prefix: bytes) -> bytes:
    """Return the least key above every key that starts with ``prefix``."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def sealed(body: bytes) -> bytes:
    """Return a row's bytes with their checksum."""
    return body + zlib.crc32(body).to_bytes(4, "big")


def opened(raw: bytes, what: str) -> Any:
    """Return a row's fields; raises JournalError when its checksum does not hold."""
    body = raw[:-4]
    if zlib.crc32(body).to_bytes(4, "big") != raw[-4:]:
        raise JournalError(
            f"{what} is damaged: its checksum does not match its content",
            hint="Nothing was executed. Restore the store from a backup",
        )
    version, *fields = ormsgpack.unpackb(body)
    if version > ROW_VERSION:
        raise JournalTooNew(
            f"{what} has format {version}, this library reads up to {ROW_VERSION}",
            hint="Upgrade pyrula; the store was left untouched",
        )
    return fields


def pack_checkpoint(row: CheckpointRow) -> bytes:
    """Return the plaintext of a checkpoint's record."""
    fields = [
        ROW_VERSION,
        None if row.parent_id is None else pack_id(row.parent_id),
        row.stamp,
        row.parent_stamp,
        row.depth,
        row.ts,
        row.versions,
        row.seen,
        row.metadata,
        row.channels,
        row.removed,
        row.rest,
    ]
    return sealed(ormsgpack.packb(fields))


def unpack_checkpoint(checkpoint_id: str, plain: bytes) -> CheckpointRow:
    """Return the row of a checkpoint's record; raises JournalError."""
    parent, *fields = opened(plain, f"checkpoint {checkpoint_id}")
    return CheckpointRow(checkpoint_id, None if parent is None else unpack_id(parent), *fields)


def unpack_id(packed: bytes) -> str:
    """Return the id of its packed form."""
    if packed[:1] == UUID_MARK:
        text = packed[1:17].hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return packed[3:].decode("utf-8", "surrogatepass")


def pack_batch(row: BatchRow) -> bytes:
    """Return the plaintext of a batch's record."""
    flat = [part for write in row.writes for part in write]
    return sealed(ormsgpack.packb([ROW_VERSION, pack_id(row.task_id), row.task_path, flat]))


def unpack_batch(plain: bytes) -> BatchRow:
    """Return the row of a batch's record; raises JournalError."""
    task, path, flat = opened(plain, "a batch of writes")
    writes = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
    return BatchRow(unpack_id(task), path, writes)
