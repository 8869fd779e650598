"""Runs and stores that the tests of the SQLite store begin with."""

from __future__ import annotations

from pathlib import Path

from pyrula_core.codec import decode, encode
from pyrula_core.events import Event, EventType, Payload
from pyrula_core.model import RunKey, RunKind
from pyrula_core.ports import Create, ReadEvents
from pyrula_core.stores.sqlite import SqliteStore
from tests.core.store_child import KEY

EVENT = encode(Event(EventType.STEP_DONE, {"key": "pull#0"}, Payload("json/1", b'"x"'), at=1.5))


def create(store: SqliteStore, key: RunKey = KEY) -> None:
    op = Create(key, RunKind.WORKFLOW, "1", "p", (EVENT,))
    store.submit(op).result(timeout=30)


def start(store: SqliteStore, key: RunKey = KEY, *, ttl: float = 1e6) -> None:
    """Create a run that is claimed at once; its seq is then 2 and its epoch 1."""
    op = Create(
        key,
        RunKind.WORKFLOW,
        "1",
        "p",
        (EVENT,),
        claim_owner="a",
        claim_ttl=ttl,
        claim_event=EVENT,
    )
    store.submit(op).result(timeout=30)


def listing(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def names(store: SqliteStore) -> list[str]:
    frames = store.submit(ReadEvents(KEY)).result()
    assert [seq for seq, _ in frames] == list(range(1, len(frames) + 1))
    events = [decode(frame, key=KEY, seq=seq) for seq, frame in frames]
    return [str(event.data.get("name", event.data.get("key"))) for event in events]
