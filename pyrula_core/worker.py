"""Claims runs that this process can serve and drives many of them at once.

Owns the claiming loop, draining, and the sweep for stranded runs. It retries its own errors: a
store that goes away for a while costs time, never a run. Must never run user code itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from pyrula_core.attempt import Attempt
from pyrula_core.closing import record, stranded
from pyrula_core.endings import StoodDown
from pyrula_core.engine import Engine
from pyrula_core.errors import JournalError, PyrulaError, StoreError, StoreUnavailable
from pyrula_core.model import RunKey, RunRow, RunStatus
from pyrula_core.owners import is_dead
from pyrula_core.ports import Claimed, ListRuns, Store
from pyrula_core.quarantine import Quarantine
from pyrula_core.registry import REGISTRY, Registry
from pyrula_core.stores import open_store
from pyrula_core.versioning import StrandedPolicy

__all__ = ["Worker", "WorkerOptions"]

log = logging.getLogger("pyrula.worker")

poll_shortest_s: Final = 0.02
poll_longest_s: Final = 1.0
sweep_rows_max: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves; times in seconds.

    ``lock_ttl`` is the length of a lease, ``concurrency`` how many runs are driven at once.
    ``poison_max_retries`` is how often a run whose journal cannot be replayed is tried within
    ``poison_retry_ttl_s`` before it is left alone, ``max_retries`` and ``max_store_requeues`` how
    often a run may lose its owner or its store without getting anywhere. ``drain_timeout`` is how
    long steps may go on after the worker was asked to stop.
    """

    lock_ttl: float = 30.0
    concurrency: int = 100
    poison_max_retries: int = 3
    poison_retry_ttl_s: float = 3600.0
    max_retries: int = 3
    max_store_requeues: int = 20
    stranded_policy: StrandedPolicy = StrandedPolicy.WAIT
    stranded_timeout: float = 300.0
    drain_timeout: float = 30.0

    def __post_init__(self) -> None:
        if self.lock_ttl <= 0 or self.concurrency < 1:
            raise ValueError(
                f"lock_ttl={self.lock_ttl!r} must be above 0, concurrency={self.concurrency!r} "
                "at least 1"
            )


class Worker:
    """Serves the registered workflows and agents of this process from one store.

    An async context manager: it works in the background while the block runs, and drains at its
    end. ``run`` works until SIGTERM or SIGINT.
    """

    def __init__(
        self,
        store: Store | str | None = None,
        options: WorkerOptions = WorkerOptions(),
        *,
        registry: Registry = REGISTRY,
        engine: Engine | None = None,
    ) -> None:
        self.options = options
        if engine is None:
            opened = open_store(store) if store is None or isinstance(store, str) else store
            engine = Engine(
                opened,
                registry,
                lease_ttl=options.lock_ttl,
                max_retries=options.max_retries,
                max_store_requeues=options.max_store_requeues,
            )
        self.engine = engine
        self.driving: dict[RunKey, asyncio.Task[None]] = {}
        self._quarantine = Quarantine(options.poison_max_retries, options.poison_retry_ttl_s)
        self._abandoned: dict[RunKey, None] = {}
        self._doomed: dict[RunKey, PyrulaError] = {}
        self._next_look = 0.0
        self._stopping = False
        self._wake: asyncio.Event = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._loop_task = asyncio.create_task(self._work(), name="pyrula worker")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.drain()

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT asks to stop, then drain."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        try:
            async with self:
                await stop.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def drain(self) -> None:
        """Claim nothing more, let runs stop at their next boundary, and give the others back."""
        self._stopping = True
        self._wake.set()
        for attempt in self.engine.attempts:
            attempt.draining = True
        if self._loop_task is not None:
            await self._loop_task
        if self.driving:
            await asyncio.wait(self.driving.values(), timeout=self.options.drain_timeout)
        for task in self.driving.values():
            task.cancel()
        if self.driving:
            await asyncio.wait(self.driving.values())

    # --- the loop -------------------------------------------------------------------------------

    async def _work(self) -> None:
        pause = poll_shortest_s
        with self._listening():
            while not self._stopping:
                self._wake.clear()
                pause = poll_shortest_s if await self._fill() else min(pause * 2, poll_longest_s)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), pause)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Wake up when this process learns of a change of any run."""
        loop = asyncio.get_running_loop()

        def heard() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake.set)

        unsubscribe = self.engine.store.subscribe(None, heard)
        try:
            yield
        finally:
            unsubscribe()

    async def _fill(self) -> bool:
        """Claim what can be claimed; True when something was. The loop outlives every error."""
        found = False
        try:
            found = await self._reclaim()
            while len(self.driving) < self.options.concurrency and not self._stopping:
                answer = await self.engine.store.call(self.engine.claim_op())
                if not isinstance(answer, Claimed):
                    break
                found = True
                self._drive(answer.row)
            await self._sweep()
        except StoreError as error:
            log.warning("claim_failed code=%s", error.code)
        return found

    async def _reclaim(self) -> bool:
        """Take over runs without waiting for their lease, where that is safe to tell.

        Those are runs that this worker had to abandon while the store was away, and runs whose
        owner was a process of this machine that is dead.
        """
        found = False
        for key in [*self._abandoned, *await self._orphans()]:
            answer = await self.engine.claim(key)
            self._abandoned.pop(key, None)
            if isinstance(answer, Claimed):
                found = True
                self._drive(answer.row)
        return found

    async def _orphans(self) -> list[RunKey]:
        """Return running runs that we could serve and whose owner is dead; looks once a second."""
        now = self.engine.clock.monotonic()
        if now < self._next_look:
            return []
        self._next_look = now + poll_longest_s
        running = ListRuns(statuses=frozenset({RunStatus.RUNNING}), limit=sweep_rows_max)
        page = await self.engine.store.call(running)
        served = self.engine.registry.served()
        return [
            row.key
            for row in page.rows
            if row.key not in self.driving
            and (row.key.name, row.version) in served
            and row.owner is not None
            and is_dead(row.owner)
        ]

    def _drive(self, row: RunRow) -> None:
        task = asyncio.create_task(self._serve(row), name=f"serve {row.key}")
        self.driving[row.key] = task
        task.add_done_callback(lambda _: self._served(row.key))

    def _served(self, key: RunKey) -> None:
        self.driving.pop(key, None)
        self._wake.set()

    async def _serve(self, row: RunRow) -> None:
        """Drive one run; whatever goes wrong is this run's alone."""
        try:
            doomed = self._doomed.pop(row.key, None)
            if doomed is not None:
                await self.engine.end_unreadable(row, doomed, self.options.poison_max_retries + 1)
                return
            ending = await self.engine.drive(row)
            if isinstance(ending, StoodDown) and isinstance(ending.error, StoreUnavailable):
                self._abandoned[row.key] = None
        except StoreUnavailable:
            self._abandoned[row.key] = None
        except JournalError as error:
            await self._quarantined(row, error)
        except Exception:
            # The boundary of the worker loop: a bug of ours must not stop the other runs.
            log.exception("attempt_failed run=%s", row.key)

    async def _quarantined(self, row: RunRow, error: PyrulaError) -> None:
        """Count a run whose journal cannot be replayed; after a few tries it is ended."""
        spent = self._quarantine.count(row.key, self.engine.clock.monotonic())
        log.error("journal_unreadable run=%s code=%s tries=%d", row.key, error.code, spent)
        if spent > self.options.poison_max_retries:
            # Ended by whoever claims it next, who holds it then: this attempt gave it back.
            self._doomed[row.key] = error

    # --- stranded runs --------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """End runs whose version nobody has, where the policy says so."""
        if self.options.stranded_policy is not StrandedPolicy.FAIL:
            return
        before = self.engine.clock.time() - self.options.stranded_timeout
        served = self.engine.registry.served()
        page = await self.engine.store.call(
            ListRuns(
                statuses=frozenset({RunStatus.QUEUED}), created_before=before, limit=sweep_rows_max
            )
        )
        names = {name for name, _ in served}
        for row in page.rows:
            known = row.key.name in names and (row.key.name, row.version) not in served
            if known and row.updated_at <= before:
                await self._fail_stranded(row)

    async def _fail_stranded(self, row: RunRow) -> None:
        answer = await self.engine.store.call(self.engine.claim_op(row.key))
        if isinstance(answer, Claimed):
            engine = self.engine
            attempt: Any = Attempt(
                engine.store, answer.row, clock=engine.clock, lease_ttl=engine.lease_ttl
            )
            await record(attempt, stranded(answer.row))
