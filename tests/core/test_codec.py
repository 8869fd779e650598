"""Any bytes are an event of exactly their place, or a JournalError."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_core.codec import (
    CRC,
    FORMAT_VERSION,
    HEADER,
    PAYLOAD_FLAG,
    decode,
    encode,
    event_bytes_max,
    seal,
    unseal,
)
from pyrula_core.errors import JournalError, JournalTooNew, PayloadTooLarge
from pyrula_core.events import TAGS, Event, EventType, Payload
from pyrula_core.model import RunKey
from tests.core.golden_events import KEY, golden_events

GOLDEN = Path(__file__).parent / "cases" / "golden_frames.json"
EVENTS = golden_events()
EVENT = Event(
    EventType.STEP_DONE, {"key": "pull#0"}, Payload("json/1", b'{"total":42}'), at=2.5, seq=7
)
FRAME = seal(encode(EVENT), key=KEY, seq=7)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type.value)
def test_a_golden_frame_opens_for_ever(event: Event) -> None:
    frame = bytes.fromhex(json.loads(GOLDEN.read_text("utf-8"))[event.type.value])
    assert decode(frame, key=KEY, seq=event.seq) == event
    assert seal(encode(event), key=KEY, seq=event.seq) == frame, "and is written the same today"


def test_every_type_of_event_has_a_golden_frame() -> None:
    assert set(json.loads(GOLDEN.read_text("utf-8"))) == {kind.value for kind in EventType}


def test_tags_are_what_they_always_were() -> None:
    tags = {kind.value: TAGS[kind] for kind in EventType}
    frames = json.loads(GOLDEN.read_text("utf-8"))
    assert {name: bytes.fromhex(frame)[1] for name, frame in frames.items()} == tags


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type.value)
def test_a_frame_cut_short_anywhere_is_refused(event: Event) -> None:
    frame = seal(encode(event), key=KEY, seq=event.seq)
    for size in range(len(frame)):
        with pytest.raises(JournalError):
            decode(frame[:size], key=KEY, seq=event.seq)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type.value)
def test_every_flipped_bit_is_found(event: Event) -> None:
    frame = seal(encode(event), key=KEY, seq=event.seq)
    for bit in range(len(frame) * 8):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(JournalError):
            decode(bytes(damaged), key=KEY, seq=event.seq)


@pytest.mark.parametrize(
    "key,seq",
    [
        (KEY, 6),
        (KEY, 8),
        (KEY, 7 + 2**32),
        (RunKey("orders", "run-2"), 7),
        (RunKey("order", "srun-1"), 7),
        (RunKey("run-1", "orders"), 7),
    ],
)
def test_a_frame_at_another_place_or_in_another_run_is_refused(key: RunKey, seq: int) -> None:
    with pytest.raises(JournalError, match="checksum"):
        decode(FRAME, key=key, seq=seq)


def test_frames_glued_together_are_refused() -> None:
    with pytest.raises(JournalError):
        decode(FRAME + FRAME, key=KEY, seq=7)


def sealed_body(body: bytes) -> bytes:
    """A frame whose checksum holds, whatever its body is."""
    return seal(body, key=KEY, seq=7)


def body_of(
    fields: bytes = b'{"key":"k"}',
    *,
    version: int = FORMAT_VERSION,
    tag: int = TAGS[EventType.STEP_DONE],
    flags: int = 0,
    at: float = 1.0,
    size: int | None = None,
    rest: bytes = b"",
) -> bytes:
    head = HEADER.pack(version, tag, flags, at, len(fields) if size is None else size)
    return head + fields + rest


@pytest.mark.parametrize("version,tag", [(2, 1), (255, 1), (1, 200), (1, 0), (2, 200)])
def test_a_later_format_is_too_new_and_says_so(version: int, tag: int) -> None:
    with pytest.raises(JournalTooNew, match="Upgrade"):
        decode(sealed_body(body_of(version=version, tag=tag)), key=KEY, seq=7)


@pytest.mark.parametrize(
    "body",
    [
        body_of(version=0),
        body_of(flags=2),
        body_of(flags=PAYLOAD_FLAG | 128),
        body_of(size=2**32 - 1),
        body_of(size=10**6),
        body_of(at=math.nan),
        body_of(at=math.inf),
        body_of(rest=b"x"),
        body_of(b"[]"),
        body_of(b"nonsense"),
        body_of(b""),
        body_of(b'{"key":1}'),
        body_of(b"{}"),
        body_of(b'{"key":"\\ud800"}'),
        body_of(b"[" * 100_000),
        body_of(flags=PAYLOAD_FLAG),
        body_of(flags=PAYLOAD_FLAG, rest=b"\0"),
        body_of(flags=PAYLOAD_FLAG, rest=b"\x21" + b"a" * 40),
        body_of(flags=PAYLOAD_FLAG, rest=b"\x09json/1"),
        body_of(flags=PAYLOAD_FLAG, rest=b"\x02\xff\xfe"),
    ],
    ids=lambda body: f"{len(body)}-{body[12:40]!r}",
)
def test_a_body_that_contradicts_itself_is_refused(body: bytes) -> None:
    with pytest.raises(JournalError) as caught:
        decode(sealed_body(body), key=KEY, seq=7)
    assert not isinstance(caught.value, JournalTooNew)


def test_what_a_later_minor_version_adds_is_kept() -> None:
    event = decode(sealed_body(body_of(b'{"key":"k","new":[1]}')), key=KEY, seq=7)
    assert event.data == {"key": "k", "new": [1]}


def test_an_empty_payload_is_not_the_lack_of_one() -> None:
    event = Event(EventType.RUN_COMPLETE, {}, Payload("json/1", b""), at=1.0, seq=1)
    assert decode(seal(encode(event), key=KEY, seq=1), key=KEY, seq=1) == event


def test_an_event_without_what_it_must_carry_is_not_written() -> None:
    with pytest.raises(JournalError):
        encode(Event(EventType.STEP_DONE, {}))


def test_an_event_that_is_too_large_is_not_written() -> None:
    event = Event(EventType.RUN_COMPLETE, {}, Payload("json/1", bytes(event_bytes_max)))
    with pytest.raises(PayloadTooLarge):
        encode(event)


def test_a_frame_that_is_too_large_is_refused() -> None:
    with pytest.raises(JournalError, match="cannot be an event"):
        unseal(bytes(event_bytes_max + CRC.size + 1), key=KEY, seq=1)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_a_journal_error(frame: bytes) -> None:
    with contextlib.suppress(JournalError):
        assert isinstance(decode(frame, key=KEY, seq=7), Event)


@given(st.binary(max_size=200))
def test_any_sealed_body_is_an_event_or_a_journal_error(body: bytes) -> None:
    with contextlib.suppress(JournalError):
        assert isinstance(decode(sealed_body(body), key=KEY, seq=7), Event)


@given(
    fields=st.binary(max_size=60) | st.text(max_size=40).map(str.encode),
    version=st.sampled_from([0, 1, 1, 1, 2]),
    tag=st.integers(0, 40),
    flags=st.integers(0, 3),
    at=st.floats(),
    size=st.none() | st.integers(0, 80),
    rest=st.binary(max_size=30),
)
def test_any_header_is_an_event_or_a_journal_error(**parts: object) -> None:
    frame = sealed_body(body_of(**parts))  # type: ignore[arg-type]
    with contextlib.suppress(JournalError):
        assert isinstance(decode(frame, key=KEY, seq=7), Event)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    extra=st.dictionaries(texts, json_values, max_size=4),
    payload=st.none() | st.builds(Payload, st.sampled_from(["json/1", "graph/1"]), st.binary()),
    at=st.floats(0, 1e11),
    seq=st.integers(1, 2**24),
)
def test_what_was_encoded_is_decoded(
    extra: dict[str, object], payload: Payload | None, at: float, seq: int
) -> None:
    event = Event(EventType.STEP_DONE, {**extra, "key": "k"}, payload, at=at, seq=seq)
    assert decode(seal(encode(event), key=KEY, seq=seq), key=KEY, seq=seq) == event
