"""Storages that the conformance suite is run on."""

from __future__ import annotations

import itertools
from pathlib import Path

from pyrula_core.model import Durability
from pyrula_core.ports import Clock, Store
from pyrula_core.stores import MemoryDisk, MemoryStore
from pyrula_core.stores.sqlite import SqliteStore

numbers = itertools.count()


class MemoryStorage:
    """A disk in memory; ``store`` is the class that is opened on it."""

    def __init__(self, store: type[MemoryStore] = MemoryStore) -> None:
        self.store = store
        self.disk = MemoryDisk()

    def open(self, *, clock: Clock, namespace: str) -> Store:
        return self.store(namespace=namespace, clock=clock, disk=self.disk)


class SqliteStorage:
    """A new file in a folder."""

    def __init__(self, folder: Path, durability: Durability = Durability.PROCESS) -> None:
        self.path = folder / f"store-{next(numbers)}.db"
        self.durability = durability

    def open(self, *, clock: Clock, namespace: str) -> Store:
        return SqliteStore(self.path, namespace=namespace, clock=clock, durability=self.durability)
