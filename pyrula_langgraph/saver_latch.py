"""Remembers failed writes, because LangGraph looks at a failed ``put_writes`` only at the very end.

Owns which of them the next ``put`` raises again. A saver of its own serves many runs, so a failure
is forgotten once raised, or once the same task wrote after all; a run-bound one keeps its first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Latch"]


class Latch:
    """The failures of one saver, by what failed: thread, namespace, checkpoint and task."""

    __slots__ = ("_failures", "_lock", "_on_error", "_sticky")

    def __init__(
        self, *, sticky: bool = False, on_error: Callable[[BaseException], None] | None = None
    ) -> None:
        self._failures: dict[tuple[str, ...], BaseException] = {}
        self._lock = threading.Lock()
        self._sticky = sticky
        self._on_error = on_error

    @property
    def first(self) -> BaseException | None:
        """The first failure that still stands."""
        return next(iter(self._failures.values()), None)

    def failed(self, what: tuple[str, ...], error: BaseException) -> None:
        """Note a failure, and tell whoever asked to be told."""
        with self._lock:
            self._failures.setdefault(what, error)
        if self._on_error is not None:
            self._on_error(error)

    def succeeded(self, what: tuple[str, ...]) -> None:
        """Note that what failed before was written after all."""
        if self._failures and not self._sticky:
            with self._lock:
                self._failures.pop(what, None)

    def check(self, *what: str) -> None:
        """Raise the first failure under ``what``, or any failure when this latch is sticky."""
        if not self._failures:
            return
        with self._lock:
            for key, error in self._failures.items():
                if self._sticky or key[: len(what)] == what:
                    if not self._sticky:
                        del self._failures[key]
                    raise error
