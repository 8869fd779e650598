"""Renews leases from tasks, on virtual time, where the real keeper uses a thread.

Must follow the rules of ``pyrula_core.lease``: renew at a third of the lease, stop writing when
the store says that somebody else holds the run.
"""

from __future__ import annotations

import asyncio

from pyrula_core.attempt import Attempt
from pyrula_core.errors import LeaseLost, StoreError
from pyrula_core.lease import LeaseKeeper
from pyrula_core.ports import Renew, Renewed

__all__ = ["SimLeaseKeeper"]


class SimLeaseKeeper(LeaseKeeper):
    """Keeps leases in the event loop that drives their runs."""

    def __init__(self) -> None:
        super().__init__()
        self._renewals: dict[int, asyncio.Task[None]] = {}

    def keep(self, attempt: Attempt) -> None:
        """Start renewing ``attempt``'s lease."""
        task = asyncio.create_task(renewing(attempt), name=f"renew {attempt.key}")
        self._renewals[id(attempt)] = task

    def drop(self, attempt: Attempt) -> None:
        """Stop renewing ``attempt``'s lease; it runs out or was released."""
        task = self._renewals.pop(id(attempt), None)
        if task is not None:
            task.cancel()


async def renewing(attempt: Attempt) -> None:
    """Renew until the lease is given back or lost."""
    while True:
        await asyncio.sleep(attempt.lease_ttl / 3)
        if attempt.released or attempt.failure is not None:
            return
        asked_at = attempt.clock.monotonic()
        renew = Renew(attempt.key, attempt.epoch, attempt.row.owner or "", attempt.lease_ttl)
        try:
            answer = await attempt.store.call(renew)
        except StoreError:
            continue
        if isinstance(answer, Renewed):
            attempt.renewed(answer.controls, asked_at=asked_at)
        elif not attempt.released:
            attempt.lost(LeaseLost(f"run {attempt.key} is held by another owner now"))
            return
