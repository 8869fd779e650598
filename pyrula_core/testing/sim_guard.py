"""Refuses what would make a simulation depend on the real world: threads and sockets.

Owns two methods of the standard library while a simulation runs, in its thread only; others may go
on as before. What the simulation itself needs of the real world, a store's thread, is let through.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["guarded", "outside", "refusal"]

_place = threading.local()


def refusal(what: str) -> RuntimeError:
    """Return the error for something real."""
    return RuntimeError(
        f"the simulation was asked for {what}: it has only virtual time and one thread. "
        "Use async steps that take their results from the test"
    )


def guarding() -> bool:
    """Tell whether the calling thread may not touch the real world."""
    return bool(getattr(_place, "guarded", 0)) and not getattr(_place, "outside", 0)


@contextmanager
def outside() -> Iterator[None]:
    """Let the calling thread touch the real world for a moment."""
    _place.outside = getattr(_place, "outside", 0) + 1
    try:
        yield
    finally:
        _place.outside -= 1


@contextmanager
def guarded() -> Iterator[None]:
    """Refuse new threads and connections in the calling thread."""
    install()
    _place.guarded = getattr(_place, "guarded", 0) + 1
    try:
        yield
    finally:
        _place.guarded -= 1


def install() -> None:
    """Put the guards in front of the real methods, once; they ask ``guarding`` at every call."""
    if getattr(threading.Thread.start, "is_guard", False):
        return
    start, connect = threading.Thread.start, socket.socket.connect

    def guarded_start(self: threading.Thread) -> None:
        if guarding():
            raise refusal(f"the thread {self.name!r}")
        start(self)

    def guarded_connect(self: socket.socket, address: Any, /) -> None:
        if guarding():
            raise refusal(f"a connection to {address!r}")
        connect(self, address)

    guarded_start.is_guard = True  # type: ignore[attr-defined]
    threading.Thread.start = guarded_start  # type: ignore[method-assign]
    socket.socket.connect = guarded_connect  # type: ignore[method-assign, assignment]
