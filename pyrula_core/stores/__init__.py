"""The stores, and how to open one."""

from __future__ import annotations

from pyrula_core.stores.front import StoreFront
from pyrula_core.stores.memory import MemoryDisk, MemoryStore
from pyrula_core.stores.opening import open_store

__all__ = ["MemoryDisk", "MemoryStore", "StoreFront", "open_store"]
