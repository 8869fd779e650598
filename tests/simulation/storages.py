"""Stores for simulations: one file for all cases of a test, a namespace for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from pyrula_core.model import Durability
from pyrula_core.ports import Clock, Store
from pyrula_core.stores import MemoryStore
from pyrula_core.stores.sqlite import SqliteStore


def sqlite_factory(path: Path) -> Callable[[Clock], Store]:
    """Return what opens an empty SQLite store each time, on one file that stays open."""
    numbers = itertools.count()
    kept = SqliteStore(path, namespace="kept", durability=Durability.PROCESS)

    def open_next(clock: Clock) -> Store:
        assert kept.durability
        return SqliteStore(
            path, namespace=f"case-{next(numbers)}", clock=clock, durability=Durability.PROCESS
        )

    return open_next


class FaultyStorage:
    """Memory behind a faulty store that has no faults, for the conformance suite."""

    def __init__(self) -> None:
        from pyrula_core.stores.memory import MemoryDisk

        self.disk = MemoryDisk()

    def open(self, *, clock: Clock, namespace: str) -> Store:
        from pyrula_core.testing import FaultyStore

        return FaultyStore(MemoryStore(clock=clock, namespace=namespace, disk=self.disk))
