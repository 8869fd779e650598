"""What every store shares in front of its storage: awaiting answers, telling subscribers.

Owns the way from a storage thread back to an event loop. Must never know what is stored.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self, TypeVar

from pyrula_core.model import Durability, RunKey
from pyrula_core.ports import Clock, Op

__all__ = ["Listeners", "StoreClock", "StoreFront"]

R = TypeVar("R")
log: Final = logging.getLogger("pyrula.store")


class StoreFront(ABC):
    """Base of the stores: ``call``, ``subscribe`` and the context manager."""

    def __init__(self, listeners: Listeners) -> None:
        self.listeners = listeners

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL that opens this store again, without secrets."""

    @property
    @abstractmethod
    def durability(self) -> Durability:
        """What an acknowledged write survives, read from the store itself."""

    @abstractmethod
    def at_once(self, op: Op[R]) -> tuple[R] | None:
        """Do an operation in the calling thread and return its answer, or None to have it queued.

        Raises what the operation raises. Nothing has happened when it answers None.
        """

    @abstractmethod
    def enqueue(self, op: Op[R], future: Future[R]) -> None:
        """Start an operation that ``at_once`` would not do; its answer resolves ``future``."""

    @abstractmethod
    def close(self) -> None:
        """Finish what was submitted and release every resource; idempotent."""

    def submit(self, op: Op[R]) -> Future[R]:
        """Start an operation; the future may be waited for from any thread or event loop."""
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()  # A write that was begun cannot be cancelled.
        try:
            answer = self.at_once(op)
        except Exception as error:  # noqa: BLE001 - the future carries it to whoever waits
            future.set_exception(error)
            return future
        if answer is None:
            self.enqueue(op, future)
        else:
            future.set_result(answer[0])
        return future

    async def call(self, op: Op[R]) -> R:
        """Do an operation and return its answer.

        Cancelling the caller never cancels the operation: it is done, and its answer dropped.
        """
        answer = self.at_once(op)
        if answer is not None:
            return answer[0]
        future: Future[R] = Future()
        self.enqueue(op, future)
        await arrival(future)
        return future.result()

    def subscribe(self, key: RunKey | None, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` (from any thread) when that run, or any run, may have changed.

        Returns a function that ends the subscription. A hint: only changes made through this
        process are told, and a listener that raises is logged and passed over.
        """
        return self.listeners.add(key, listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Listeners:
    """The subscribers of one namespace of one storage."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[RunKey | None, list[Callable[[], None]]] = {}

    def add(self, key: RunKey | None, listener: Callable[[], None]) -> Callable[[], None]:
        """Add a listener of one run (None: of every run) and return what removes it."""
        with self._lock:
            self._by_key.setdefault(key, []).append(listener)

        def remove() -> None:
            with self._lock:
                present = self._by_key.get(key, [])
                if listener in present:
                    present.remove(listener)
                if not present:
                    self._by_key.pop(key, None)

        return remove

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def notify(self, keys: Iterable[RunKey]) -> None:
        """Call the listeners of ``keys``, and those of every run once."""
        if not self._by_key:
            return
        with self._lock:
            wanted: set[RunKey | None] = set(keys)
            if wanted:
                wanted.add(None)
            called = [listener for key in wanted for listener in self._by_key.get(key, ())]
        for listener in called:
            try:
                listener()
            except Exception:  # A listener is foreign code; it must not stop a storage thread.
                log.exception("listener_failed")


class StoreClock:
    """A clock as a store uses it: never before a time it has already told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._latest = 0.0

    def time(self) -> float:
        """Seconds since the epoch, never less than an earlier answer."""
        with self._lock:
            self._latest = max(self._latest, self._clock.time())
            return self._latest


class Mailbox:
    """Wakes waiters of one event loop, many at a time.

    A group commit resolves many futures at once. Each ``call_soon_threadsafe`` writes to the
    loop's pipe, so only the first of a burst does; the rest ride along. No lock is needed: an item
    is appended before the flag is read, and the flag is cleared before items are taken.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._called = False

    def put(self, waiter: asyncio.Future[None]) -> None:
        """Wake ``waiter`` soon, from any thread."""
        self._waiters.append(waiter)
        loop = self._loop()
        if self._called or loop is None:
            return
        self._called = True
        try:
            loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # The loop was closed while we worked: nobody waits any more.
            self._waiters.clear()

    def _wake(self) -> None:
        self._called = False
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


mailboxes: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox]] = (
    weakref.WeakKeyDictionary()
)


async def arrival(future: Future[R]) -> None:
    """Return when ``future`` is done; being cancelled leaves the future alone."""
    loop = asyncio.get_running_loop()
    mailbox = mailboxes.get(loop)
    if mailbox is None:
        mailbox = mailboxes.setdefault(loop, Mailbox(loop))
    box, waiter = mailbox, loop.create_future()
    future.add_done_callback(lambda _: box.put(waiter))
    await waiter
