"""A worker that does not look into an empty queue for days on end.

Owns nothing but how long to wait for the next look: as the real worker does for a while, then until
something is due. Days of virtual time cost a few looks instead of one a second.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from pyrula_core.errors import StoreError
from pyrula_core.model import RunStatus
from pyrula_core.ports import ListRuns, Now
from pyrula_core.worker import Worker, poll_longest_s, poll_shortest_s

__all__ = ["SimWorker"]

looks_until_calm: Final = 10
calm_longest_s: Final = 86_400.0
LIVE: Final = frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING})


class SimWorker(Worker):
    """The real worker, with another pause between two looks at an empty queue."""

    async def _work(self) -> None:
        pause, idle = poll_shortest_s, 0
        with self._listening():
            while not self._stopping:
                self._wake.clear()
                found = await self._fill()
                idle = 0 if found else idle + 1
                pause = poll_shortest_s if found else min(pause * 2, poll_longest_s)
                if idle > looks_until_calm:
                    pause = await self._until_due()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), pause)
                    idle = 0

    async def _until_due(self) -> float:
        """Return how long nothing can be claimed, unless somebody changes a run."""
        store = self.engine.store
        try:
            now = await store.call(Now())
            page = await store.call(ListRuns(statuses=LIVE, limit=1000))
        except StoreError:
            return poll_longest_s
        times = [row.wake_at for row in page.rows if row.wake_at is not None]
        times += [row.lease_until for row in page.rows if row.status is RunStatus.RUNNING]
        times += [now for row in page.rows if row.status is RunStatus.QUEUED]
        return max(poll_longest_s, min(times, default=now + calm_longest_s) - now)
