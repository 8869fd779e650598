"""A store that kills its own process with SIGKILL at a chosen journal write.

``before``: nothing of the write has reached the store. ``after``: the write is durable, and nobody
in this process has seen the answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pyrula_core.model import Durability, RunKey
from pyrula_core.ports import Append, Claim, Create, Op, Post, Store, WriteRecords

R = TypeVar("R")
Mode = Literal["before", "after"]

WRITES = (Append, Claim, Create, Post, WriteRecords)


@dataclass(frozen=True, slots=True)
class Kill:
    """Which write of a process is its last, and on which side of it.

    ``at`` counts writes from 1; ``holding`` means the first write of an event with these bytes.
    """

    at: int
    mode: Mode
    holding: bytes = b""


class KillingStore:
    """Passes every operation on to ``inner`` until the write comes at which the process dies.

    ``strike`` is what is done then: by default SIGKILL to this very process, which runs no handler,
    no ``finally`` and no ``atexit``.
    """

    def __init__(
        self, inner: Store, kill: Kill | None, strike: Callable[[], None] | None = None
    ) -> None:
        self.inner = inner
        self.kill = kill
        self.writes = 0
        self.struck = False
        self._strike = strike or die
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def durability(self) -> Durability:
        return self.inner.durability

    def submit(self, op: Op[R]) -> Future[R]:
        if not self._is_last(op):
            return self.inner.submit(op)
        return self._last(op)

    async def call(self, op: Op[R]) -> R:
        if not self._is_last(op):
            return await self.inner.call(op)
        return await asyncio.wrap_future(self._last(op))

    def subscribe(self, key: RunKey | None, listener: Callable[[], None]) -> Callable[[], None]:
        return self.inner.subscribe(key, listener)

    def close(self) -> None:
        self.inner.close()

    def _is_last(self, op: Op[Any]) -> bool:
        """Count a write; true for the one at which the process dies."""
        if not isinstance(op, WRITES):
            return False
        with self._lock:
            self.writes += 1
            if self.kill is None or self.struck:
                return False
            bodies = getattr(op, "events", ())
            sought = self.kill.holding
            held = bool(sought) and any(sought in body for body in bodies)
            self.struck = held or self.writes == self.kill.at
            return self.struck

    def _last(self, op: Op[R]) -> Future[R]:
        """Do a write and strike; the answer reaches nobody before that."""
        assert self.kill is not None, "asked for the last write"
        if self.kill.mode == "before":
            self._strike()
            return self.inner.submit(op)
        seen: Future[R] = Future()

        def durable(answer: Future[R]) -> None:
            self._strike()
            pass_on(answer, seen)

        # Never waited for: the store's own thread may be the one that writes.
        self.inner.submit(op).add_done_callback(durable)
        return seen


def pass_on(answer: Future[R], seen: Future[R]) -> None:
    """Resolve ``seen`` as ``answer`` was; only reached when the strike did not kill."""
    error = answer.exception()
    if error is None:
        seen.set_result(answer.result())
    else:
        seen.set_exception(error)


def die() -> None:
    """End this process at once, as the kernel's out-of-memory killer would."""
    os.kill(os.getpid(), signal.SIGKILL)
