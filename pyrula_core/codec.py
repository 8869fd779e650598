"""Turns an event into bytes and back, refusing every damaged, foreign or too new frame.

Owns the frame layout. The contract is total: any bytes give an ``Event`` or a ``JournalError``,
never another exception. Must never import a module a frame names, and never build a user's value:
payloads stay bytes here.

Layout, little endian::

    body   = version u8 | tag u8 | flags u8 | at f64 | fields_bytes u32 | fields (JSON)
             [ codec_bytes u8 | codec (ascii) | payload ]        when flags has PAYLOAD
    frame  = body | crc32 u32

The checksum covers the run's identity, the body and the sequence number, in that order. A frame
moved to another place or another run is therefore as visible as a flipped bit, and a store that
numbers an event itself can finish the checksum with eight more bytes.
"""

from __future__ import annotations

import math
import struct
import zlib
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json, to_json

from pyrula_core.errors import JournalError, JournalTooNew, PayloadTooLarge
from pyrula_core.events import TAGS, Event, EventType, Payload, check_fields
from pyrula_core.model import RunKey

__all__ = ["FORMAT_VERSION", "decode", "encode", "event_bytes_max", "seal", "unseal"]

FORMAT_VERSION: Final = 1
event_bytes_max: Final = 32 * 1024 * 1024
codec_chars_max: Final = 32

HEADER: Final = struct.Struct("<BBBdI")
SEQ: Final = struct.Struct("<Q")
CRC: Final = struct.Struct("<I")
PAYLOAD_FLAG: Final = 1
TYPES: Final[dict[int, EventType]] = {tag: kind for kind, tag in TAGS.items()}

CORRUPT_HINT: Final = (
    "Nothing was executed. Restore the store from a backup, or start the run anew with a new run_id"
)


def encode(event: Event) -> bytes:
    """Return the body of ``event``; raises PayloadTooLarge beyond ``event_bytes_max``."""
    check_fields(event)
    fields = to_json(dict(event.data), inf_nan_mode="strings")
    flags = 0 if event.payload is None else PAYLOAD_FLAG
    head = HEADER.pack(FORMAT_VERSION, TAGS[event.type], flags, event.at, len(fields))
    if event.payload is None:
        body = head + fields
    else:
        codec = event.payload.codec.encode("ascii")
        body = b"".join((head, fields, bytes((len(codec),)), codec, event.payload.body))
    if len(body) > event_bytes_max:
        raise PayloadTooLarge(
            f"event {event.type} has {len(body)} bytes; one may have {event_bytes_max}",
            hint="Store the value elsewhere and record a reference to it",
        )
    return body


def seal(body: bytes, *, key: RunKey, seq: int) -> bytes:
    """Return the frame of ``body`` at place ``seq`` of the journal of ``key``."""
    return body + CRC.pack(checksum(body, key=key, seq=seq))


def unseal(frame: bytes, *, key: RunKey, seq: int) -> bytes:
    """Return the body of a stored frame; raises JournalError when its checksum does not hold."""
    if len(frame) < HEADER.size + CRC.size or len(frame) > event_bytes_max + CRC.size:
        raise corrupt(key, seq, f"a frame of {len(frame)} bytes cannot be an event")
    body, stored = frame[: -CRC.size], CRC.unpack(frame[-CRC.size :])[0]
    if checksum(body, key=key, seq=seq) != stored:
        raise corrupt(key, seq, "its checksum does not match its content and place")
    return body


def decode(frame: bytes, *, key: RunKey, seq: int) -> Event:
    """Return the event of a stored frame.

    Raises JournalTooNew for a version or a tag this library does not know, JournalError for
    anything else that is not a whole, undamaged event of exactly this place.
    """
    body = unseal(frame, key=key, seq=seq)
    version, tag, flags, at, size = HEADER.unpack_from(body)
    if version > FORMAT_VERSION or (version == FORMAT_VERSION and tag not in TYPES):
        raise JournalTooNew(
            f"event {seq} of run {key} has format {version} and tag {tag}, "
            f"this library reads format {FORMAT_VERSION} and tags up to {max(TYPES)}",
            hint="Upgrade pyrula; the journal was left untouched",
        )
    end = HEADER.size + size
    if version != FORMAT_VERSION or flags & ~PAYLOAD_FLAG or end > len(body):
        raise corrupt(key, seq, "its header contradicts itself")
    if not math.isfinite(at):
        raise corrupt(key, seq, "its time is not a number")
    payload = read_payload(body[end:], key=key, seq=seq) if flags & PAYLOAD_FLAG else None
    if payload is None and end != len(body):
        raise corrupt(key, seq, "bytes follow its fields")
    fields = read_fields(body[HEADER.size : end], key=key, seq=seq)
    event = Event(type=TYPES[tag], data=fields, payload=payload, at=at, seq=seq)
    check_fields(event)
    return event


def read_fields(raw: bytes, *, key: RunKey, seq: int) -> dict[str, Any]:
    """Return the JSON object of an event's own fields."""
    try:
        fields = from_json(raw)
    except ValueError as error:
        raise corrupt(key, seq, f"its fields are not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise corrupt(key, seq, "its fields are not an object")
    return fields


def read_payload(raw: bytes, *, key: RunKey, seq: int) -> Payload:
    """Return the payload that follows an event's fields."""
    size = raw[0] if raw else 0
    if not 1 <= size <= codec_chars_max or len(raw) < 1 + size:
        raise corrupt(key, seq, "its payload names no codec")
    try:
        codec = raw[1 : 1 + size].decode("ascii")
    except UnicodeDecodeError:
        raise corrupt(key, seq, "its payload's codec name is not ASCII") from None
    return Payload(codec=codec, body=raw[1 + size :])


def checksum(body: bytes, *, key: RunKey, seq: int) -> int:
    """Return the CRC-32 (zlib's) of the run's identity, the body and the place, in that order."""
    return zlib.crc32(SEQ.pack(seq), zlib.crc32(body, salt_of(key)))


@lru_cache(maxsize=1024)
def salt_of(key: RunKey) -> int:
    """Return where the checksums of one run begin."""
    return zlib.crc32(f"{key.name}\0{key.run_id}".encode())


def corrupt(key: RunKey, seq: int, why: str) -> JournalError:
    """Return the error that says which event of which run is damaged, and what to do."""
    return JournalError(f"event {seq} of run {key} is damaged: {why}", hint=CORRUPT_HINT)
