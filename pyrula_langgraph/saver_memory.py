"""What one process remembers of the threads its saver writes.

Owns the bounds of that memory. It is a cache and nothing else: forgetting any of it costs bytes or
time, never a record. A thread's memory holds for one *generation*; every deletion in the thread
begins another, and a memory of an older one is dropped whole.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from pyrula_langgraph.shapes import State

__all__ = ["Known", "Memory", "ThreadMemory"]

threads_max: Final = 256
namespaces_max: Final = 64
digests_max: Final = 200_000
checkpoints_max: Final = 256


@dataclass(slots=True)
class Known:
    """A checkpoint as this process knows it; ``states`` may hold the objects themselves."""

    checkpoint_id: str
    stamp: bytes
    depth: int
    versions: dict[str, Any]
    seen: dict[str, Any]
    metadata: dict[str, Any]
    states: dict[str, State]


@dataclass(slots=True)
class ThreadMemory:
    """One thread: its newest checkpoint per namespace, and which elements are stored."""

    generation: bytes | None = None
    is_written: bool = False
    heads: OrderedDict[str, Known] = field(default_factory=OrderedDict)
    digests: set[bytes] = field(default_factory=set)
    batches: OrderedDict[tuple[str, str], dict[str, int]] = field(default_factory=OrderedDict)
    verify: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self, generation: bytes | None) -> None:
        """Forget everything but the locks, and begin with ``generation``."""
        self.generation = generation
        self.is_written = generation is not None
        self.heads.clear()
        self.digests.clear()
        self.batches.clear()

    def head(self, ns: str, checkpoint_id: str | None) -> Known | None:
        """Return the remembered checkpoint of a namespace, when it is that one."""
        known = self.heads.get(ns)
        return known if known is not None and known.checkpoint_id == checkpoint_id else None

    def learn(self, ns: str, known: Known | None, digests: set[bytes]) -> None:
        """Remember a durable checkpoint and the elements that are stored now."""
        if len(self.digests) + len(digests) > digests_max:
            self.reset(self.generation)
        self.digests |= digests
        if known is not None:
            self.heads[ns] = known
            self.heads.move_to_end(ns)
            while len(self.heads) > namespaces_max:
                self.heads.popitem(last=False)

    def next_batch(self, ns: str, checkpoint_id: str, task_id: str) -> int | None:
        """Return the number of a task's next batch, or None when the stored ones are unknown."""
        tasks = self.batches.get((ns, checkpoint_id))
        if tasks is None:
            return None
        number = tasks.get(task_id, 0)
        tasks[task_id] = number + 1
        return number

    def learn_batches(self, ns: str, checkpoint_id: str, tasks: dict[str, int]) -> None:
        """Remember how many batches each task of a checkpoint has."""
        self.batches.setdefault((ns, checkpoint_id), tasks)
        while len(self.batches) > checkpoints_max:
            self.batches.popitem(last=False)


class Memory:
    """The memories of the threads used last, shared by every clone of a saver."""

    __slots__ = ("_lock", "_threads", "writer")

    def __init__(self) -> None:
        self._threads: OrderedDict[str, ThreadMemory] = OrderedDict()
        self._lock = threading.Lock()
        self.writer = os.urandom(4)

    def of(self, thread: str) -> ThreadMemory:
        """Return the memory of a thread, a fresh one if there is none."""
        with self._lock:
            found = self._threads.get(thread)
            if found is None:
                found = self._threads[thread] = ThreadMemory()
                while len(self._threads) > threads_max:
                    self._threads.popitem(last=False)
            else:
                self._threads.move_to_end(thread)
            return found

    def forget(self, thread: str) -> None:
        """Drop what is remembered of a thread."""
        with self._lock:
            self._threads.pop(thread, None)
