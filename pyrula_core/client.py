"""Starts, awaits, questions and steers runs.

Owns the rules of what a caller may ask of a run, and of who drives it. Must never write to a run's
journal but by ``Create`` and ``Post``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypedDict, Unpack

from pyrula_core.background import SyncCalls
from pyrula_core.codec import decode, encode, seal
from pyrula_core.endings import Ending, Failed, StoodDown
from pyrula_core.engine import Engine
from pyrula_core.errors import (
    CallerError,
    ContinuationChainError,
    DurableInvocationError,
    DurableInvocationTimeout,
    RunConflictError,
    StoreUnavailable,
)
from pyrula_core.events import Event, EventType
from pyrula_core.history import read_history
from pyrula_core.machine import RunState, fold
from pyrula_core.messages import Messages
from pyrula_core.model import (
    RunKey,
    RunOutcome,
    RunRow,
    RunStatus,
    RunView,
    check_run_id,
)
from pyrula_core.ports import (
    Claimed,
    Create,
    Exists,
    Head,
    ListRuns,
    Occupied,
    RunPage,
    Store,
)
from pyrula_core.registry import REGISTRY, Definition, Registry
from pyrula_core.stores import open_store
from pyrula_core.views import outcome_view, run_view

__all__ = ["Client"]

AT_REST: Final = frozenset({RunStatus.INTERRUPTED, RunStatus.PAUSED})
# What made an attempt stand down that only the caller can do something about.
TOLD: Final = (StoreUnavailable, CallerError)
poll_first_s: Final = 0.01
poll_longest_s: Final = 0.5
chain_length_max: Final = 1000


class RunFilters(TypedDict, total=False):
    """What ``Client.list`` can filter by, beside name and status."""

    error_code: str
    created_after: float
    created_before: float
    thread: str
    parent: str


class Client(Messages):
    """A caller's hands on the runs of one store.

    ``store`` is a Store or its URL. Runs whose name is registered in this process can be driven by
    it (``run_and_await``); all others are only started and awaited. ``sync`` has the same calls for
    synchronous code: ``client.sync.start(...)``.
    """

    def __init__(
        self,
        store: Store | str | None = None,
        *,
        registry: Registry = REGISTRY,
        engine: Engine | None = None,
    ) -> None:
        if engine is None:
            opened = open_store(store) if store is None or isinstance(store, str) else store
            engine = Engine(opened, registry)
        super().__init__(engine)
        self.sync = SyncCalls(self)
        self._driving: dict[RunKey, asyncio.Task[Ending | None]] = {}

    # --- starting and awaiting ------------------------------------------------------------------

    async def start(
        self,
        name: str,
        *args: Any,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        thread: str | None = None,
        exclusive: bool = False,
    ) -> str:
        """Record a run and its input, and return its run id; nothing is executed here.

        With ``exclusive`` a thread has one open run at a time: RunConflictError with code
        ``thread_busy`` while another one has not ended.

        Starting again with the same run id, or the same idempotency key, and the same input
        returns the run that is there. Raises NotRegisteredError for an unknown name,
        RunConflictError for another input, ResultNotSerializable for input that is not JSON.
        """
        definition = self.registry.current(name)
        operation = self._create_op(definition, args, run_id, idempotency_key, thread)
        operation = replace(operation, exclusive=exclusive)
        answer = await self.store.call(operation)
        if isinstance(answer, Occupied):
            raise RunConflictError(
                f"thread {thread!r} is held by run {answer.row.key}",
                hint="Wait for it, answer it, or cancel it",
                code="thread_busy",
            )
        if isinstance(answer, Exists):
            await self._check_same_input(answer.row, operation.events[0], operation.key)
        return answer.row.key.run_id

    def _create_op(
        self,
        definition: Definition,
        args: Sequence[Any],
        run_id: str | None,
        idempotency_key: str | None,
        thread: str | None,
    ) -> Create:
        chosen = check_run_id(self.entropy.token() if run_id is None else run_id)
        payload = definition.input_codec.encode(list(args))
        fields: dict[str, Any] = {"kind": definition.kind, "version": definition.version}
        if thread is not None:
            fields["thread"] = thread
        created = Event(EventType.RUN_CREATED, fields, payload, self.clock.time())
        return Create(
            key=RunKey(definition.name, chosen),
            kind=definition.kind,
            version=definition.version,
            partition=thread or chosen,
            events=(encode(created),),
            idempotency_key=idempotency_key,
        )

    async def _check_same_input(self, row: RunRow, body: bytes, key: RunKey) -> None:
        recorded = (await read_history(self.store, row.key))[0]
        created = decode(seal(body, key=key, seq=1), key=key, seq=1)
        if recorded.payload != created.payload:
            raise RunConflictError(
                f"run {row.key} exists and was started with another input",
                hint="Use a new run_id for a new input; the same run_id means the same run",
            )

    async def run_and_await(
        self,
        name: str,
        *args: Any,
        run_id: str | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        thread: str | None = None,
        drive: bool = True,
    ) -> RunOutcome:
        """Start a run, or attach to it, and return where it comes to.

        The outcome's status is ``complete``, ``interrupted`` or ``paused``. The run is driven in
        this process unless a worker holds it or ``drive`` is False. ``timeout`` is in seconds and
        leaves the run going.

        Raises DurableInvocationError (``code``, ``user_code``, ``run_id``; the original exception
        as ``__cause__`` where it was raised here), DurableInvocationTimeout,
        DurableInvocationCancelled, and what ``start`` raises.
        """
        run_id = await self.start(
            name, *args, run_id=run_id, idempotency_key=idempotency_key, thread=thread
        )
        return await self.result(name, run_id, timeout=timeout, drive=drive)

    async def result(
        self, name: str, run_id: str, *, timeout: float | None = None, drive: bool = True
    ) -> RunOutcome:
        """Wait until a run completes, is interrupted or is paused; see ``run_and_await``.

        Follows ``continue_as_new`` to the run that has the result.
        """
        key = RunKey(name, run_id)
        try:
            async with asyncio.timeout(timeout):
                return await self.settle(key, drive=drive)
        except TimeoutError:
            raise DurableInvocationTimeout(
                f"run {key} has not come to an end within {timeout} s",
                name=name,
                run_id=run_id,
                hint="It goes on; call again with the same run_id to wait for it",
            ) from None

    async def settle(
        self, key: RunKey, *, drive: bool = True, until: frozenset[RunStatus] = AT_REST
    ) -> RunOutcome:
        """Drive or await a run until its shown status is one of ``until``, or it has ended."""
        pause = poll_first_s
        hops = 0
        error: BaseException | None = None
        while True:
            row = await self.head(key)
            if row.status is RunStatus.CONTINUED:
                key, hops = await self._next_of(key), hops + 1
                if hops > chain_length_max:
                    raise ContinuationChainError(f"the chain of run {key} does not end")
                continue
            if row.status.ended or (row.shown_status in until and not self._due(row)):
                return await self._outcome(row, error)
            ending = await self._drive(row) if drive else None
            if ending is None:
                await self._changed(key, row.seq, self._pause(row, pause))
                pause = min(pause * 2, poll_longest_s)
            elif isinstance(ending, StoodDown) and isinstance(ending.error, TOLD):
                raise ending.error
            elif isinstance(ending, Failed):
                error = ending.error

    async def advance(self, row: RunRow) -> None:
        """Drive a run a stretch, or wait a moment for who does."""
        if await self._drive(row) is None:
            await self._changed(row.key, row.seq, poll_longest_s / 10)

    def _due(self, row: RunRow) -> bool:
        """Tell whether a waiting run is due."""
        rests = row.shown_status in (RunStatus.WAITING, RunStatus.INTERRUPTED)
        return rests and row.wake_at is not None and row.wake_at <= self.clock.time()

    def _pause(self, row: RunRow, pause: float) -> float:
        """Do not sleep past the moment at which a waiting run is due."""
        if row.wake_at is None:
            return pause
        return max(0.0, min(pause, row.wake_at - self.clock.time()))

    async def _drive(self, row: RunRow) -> Ending | None:
        """Drive a run in this process; None when somebody else holds it or it is not due.

        The task goes on when the caller stops waiting: a run's life is not tied to who asked.
        """
        task = self._driving.get(row.key)
        if task is None:
            if self.registry.find(row.key.name, row.version) is None:
                return None
            task = asyncio.create_task(self._claim_and_drive(row.key), name=f"drive {row.key}")
            self._driving[row.key] = task
            task.add_done_callback(lambda _: self._driving.pop(row.key, None))
        return await asyncio.shield(task)

    async def _claim_and_drive(self, key: RunKey) -> Ending | None:
        claimed = await self.engine.claim(key)
        return await self.engine.drive(claimed.row) if isinstance(claimed, Claimed) else None

    async def _changed(self, key: RunKey, seq: int, pause: float) -> None:
        """Return when the run may have changed, after ``pause`` seconds at the latest."""
        async with self.news_of(key) as news:
            row = await self.store.call(Head(key))
            if row is not None and row.seq == seq:
                try:
                    await asyncio.wait_for(news.wait(), pause)
                except TimeoutError:
                    return

    @asynccontextmanager
    async def news_of(self, key: RunKey | None) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set whenever this process learns of a change of a run."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def heard() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(news.set)

        unsubscribe = self.store.subscribe(key, heard)
        try:
            yield news
        finally:
            unsubscribe()

    async def _next_of(self, key: RunKey) -> RunKey:
        row = await self.head(key)
        last = (await read_history(self.store, key, row.seq - 1))[-1]
        return RunKey(key.name, last.data["run_id"])

    async def _outcome(self, row: RunRow, error: BaseException | None) -> RunOutcome:
        if row.status.ended:
            # The last event says it all; a long journal is not read for it.
            last = (await read_history(self.store, row.key, row.seq - 1))[-1]
            state = RunState(ended=last)
        else:
            state = fold(await read_history(self.store, row.key))
        try:
            return outcome_view(row, state, *self.codecs_of(row))
        except DurableInvocationError as failure:
            raise failure from error

    # --- looking --------------------------------------------------------------------------------

    async def describe(self, name: str, run_id: str) -> RunView:
        """Return a run's status, error, open interrupts and counts; raises RunNotFoundError."""
        row = await self.head(RunKey(name, run_id))
        state = fold(await read_history(self.store, row.key))
        return run_view(row, state, self.codecs_of(row)[0])

    async def history(self, name: str, run_id: str, *, after: int = 0) -> list[Event]:
        """Return a run's events with ``seq > after``; raises RunNotFoundError, JournalError."""
        key = RunKey(name, run_id)
        await self.head(key)
        return await read_history(self.store, key, after)

    async def list(
        self,
        name: str | None = None,
        status: RunStatus | str | Sequence[RunStatus | str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **filters: Unpack[RunFilters],
    ) -> RunPage:
        """Return a page of run rows, newest first; pass its ``cursor`` for the next one.

        More ``filters``: ``error_code``, ``created_after`` and ``created_before`` (seconds, Unix),
        ``thread``, ``parent`` (``name/run_id``). Raises ValueError for a status that does not exist
        and for a limit that is not from 1 to 1,000.
        """
        wanted = [status] if isinstance(status, str) else (status or [])
        statuses = frozenset(RunStatus(one) for one in wanted)
        return await self.store.call(
            ListRuns(
                name=name,
                statuses=statuses,
                limit=limit,
                cursor=cursor,
                error_code=filters.get("error_code"),
                created_after=filters.get("created_after"),
                created_before=filters.get("created_before"),
                partition=filters.get("thread"),
                parent=filters.get("parent"),
            )
        )
