"""Renews leases from a thread, so that a blocked event loop does not lose them.

One daemon thread per process serves every attempt. Must never run user code and never touch an
event loop.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from pyrula_core.attempt import Attempt
from pyrula_core.errors import LeaseLost, StoreError
from pyrula_core.ports import Fenced, Renew, Renewed

__all__ = ["LeaseKeeper", "shared_keeper"]

log = logging.getLogger("pyrula.lease")

renewals_per_ttl = 3.0
answer_wait_s = 5.0


class LeaseKeeper:
    """Keeps the leases of the attempts given to it until they are taken back."""

    def __init__(self) -> None:
        self._attempts: dict[int, Attempt] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def keep(self, attempt: Attempt) -> None:
        """Start renewing ``attempt``'s lease."""
        with self._changed:
            self._attempts[id(attempt)] = attempt
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="pyrula-lease", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, attempt: Attempt) -> None:
        """Stop renewing ``attempt``'s lease; it runs out or was released."""
        with self._changed:
            self._attempts.pop(id(attempt), None)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._attempts:
                    self._changed.wait()
                due = self._due()
                if not due:
                    self._changed.wait(self._pause())
                    due = self._due()
            for attempt in due:
                self._renew(attempt)

    def _pause(self) -> float:
        shortest = min(attempt.lease_ttl for attempt in self._attempts.values())
        return shortest / renewals_per_ttl / 4

    def _due(self) -> list[Attempt]:
        """Return the attempts that have used up the first third of their lease."""
        return [
            attempt
            for attempt in self._attempts.values()
            if attempt.deadline - attempt.clock.monotonic()
            < attempt.lease_ttl * (1 - 1 / renewals_per_ttl)
            and not attempt.released
        ]

    def _renew(self, attempt: Attempt) -> None:
        """Ask once; a store that does not answer is asked again until the lease runs out."""
        asked_at = attempt.clock.monotonic()
        owner = attempt.row.owner or ""
        try:
            answer: Future[Renewed | Fenced] = attempt.store.submit(
                Renew(attempt.key, attempt.epoch, owner, attempt.lease_ttl)
            )
            result = answer.result(timeout=answer_wait_s)
        except (StoreError, FutureTimeout) as error:
            log.warning("lease_renewal_failed run=%s error=%s", attempt.key, type(error).__name__)
            return
        if isinstance(result, Renewed):
            attempt.renewed(result.controls, asked_at=asked_at)
        elif not attempt.released:
            attempt.lost(LeaseLost(f"run {attempt.key} is held by another owner now"))
            self.drop(attempt)


_shared: LeaseKeeper | None = None
_shared_lock = threading.Lock()


def shared_keeper() -> LeaseKeeper:
    """Return this process's keeper."""
    global _shared  # noqa: PLW0603 (one keeper a process)
    with _shared_lock:
        if _shared is None:
            _shared = LeaseKeeper()
        return _shared
