"""Reads a run's journal from a store."""

from __future__ import annotations

from pyrula_core.codec import decode
from pyrula_core.events import Event
from pyrula_core.model import RunKey
from pyrula_core.ports import ReadEvents, Store

__all__ = ["read_history"]


async def read_history(store: Store, key: RunKey, after: int = 0) -> list[Event]:
    """Return a run's events after ``after``; raises JournalError when one is damaged."""
    frames = await store.call(ReadEvents(key, after))
    return [decode(frame, key=key, seq=seq) for seq, frame in frames]
