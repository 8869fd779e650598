"""Runs coroutines for synchronous callers, on one event loop in a thread of this process.

Owns that thread. The sync API is the async one, called through here; there is no second version.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["SyncCalls", "run_sync", "submit"]

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, starting its daemon thread on first use."""
    global _loop  # noqa: PLW0603 (one loop a process)
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="pyrula-sync", daemon=True).start()
        return _loop


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the background loop."""
    return asyncio.run_coroutine_threadsafe(work, background_loop())


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it returns, or raise what it raises.

    Raises RuntimeError on the background loop itself, where waiting would never end.
    """
    if threading.current_thread().name == "pyrula-sync":
        work.close()
        raise RuntimeError("a synchronous call was made from the background loop; await it instead")
    return submit(work).result()


class SyncCalls:
    """The async methods of an object, for synchronous callers.

    ``calls.name(...)`` runs ``target.name(...)`` to its end on the background loop and returns what
    it returns; from an event loop, await the target's own method instead.
    """

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the synchronous form of one of the target's public async methods."""
        method = None if name.startswith("_") else getattr(self._target, name)
        if not inspect.iscoroutinefunction(method):
            raise AttributeError(f"{type(self._target).__name__} has no async method {name!r}")

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return run_sync(method(*args, **kwargs))

        return call
