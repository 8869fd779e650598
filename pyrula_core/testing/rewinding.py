"""Takes a memory store back to what it held a few writes ago, as a disk does that lied.

Owns copies of the store's contents. Only the memory store can be taken back: it is the one whose
whole content can be copied between two writes.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import Final

from pyrula_core.model import RunKey
from pyrula_core.ports import Store
from pyrula_core.stores.memory import Journal, MemoryStore

__all__ = ["Rewinder"]

writes_lost: Final = 2

Image = tuple[dict[RunKey, Journal], dict[str, dict[bytes, bytes]]]


class Rewinder:
    """Remembers what a memory store held before each of the last writes."""

    def __init__(self, store: Store) -> None:
        if not isinstance(store, MemoryStore):
            raise TypeError(f"{store.url} cannot be rolled back: use the memory store for it")
        self._space = store.space
        self._images: deque[Image] = deque(maxlen=writes_lost + 1)

    def note(self) -> None:
        """Remember what is there now; called before each write."""
        journals = {key: copied(journal) for key, journal in self._space.journals.items()}
        records = {partition: dict(kept) for partition, kept in self._space.records.items()}
        self._images.append((journals, records))

    def rewind(self) -> bool:
        """Forget the last writes; False while there are not enough of them yet."""
        if len(self._images) <= writes_lost:
            return False
        self._space.journals, self._space.records = self._images.popleft()
        self._images.clear()
        return True


def copied(journal: Journal) -> Journal:
    """Return a journal that further writes to the original leave alone."""
    twin = copy(journal)
    twin.frames, twin.guards = list(journal.frames), dict(journal.guards)
    return twin
