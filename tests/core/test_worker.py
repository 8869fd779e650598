"""A worker claims what it can serve, survives a store that goes away, and drains."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import apsw
import pytest

from pyrula_core import (
    Client,
    DurableInvocationError,
    Registry,
    StoreUnavailable,
    Worker,
    WorkerOptions,
    open_store,
    workflow,
)
from pyrula_core.model import RunKey
from pyrula_core.ports import Append, Store
from pyrula_core.versioning import StrandedPolicy


async def eventually(client: Client, run_id: str, status: str) -> None:
    """Wait until a run has a status; the test's own timeout ends a wait that never does."""
    async with asyncio.timeout(20):
        while (await client.head(RunKey("w", run_id))).shown_status != status:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_worker_drives_started_runs_and_callers_only_wait(
    store: Store, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> int:
        return int(await ctx.step("double", lambda: n * 2))

    client = Client(store, registry=registry)
    async with Worker(store, WorkerOptions(concurrency=3), registry=registry):
        outcomes = await asyncio.gather(
            *(client.run_and_await("w", n, run_id=f"r{n}", drive=False) for n in range(10))
        )
    assert [outcome.output for outcome in outcomes] == [n * 2 for n in range(10)]


async def test_a_worker_wakes_runs_that_sleep_and_runs_that_get_a_signal(
    store: Store, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> Any:
        await ctx.sleep(0.01)
        return await ctx.wait_for_signal("go")

    client = Client(store, registry=registry)
    async with Worker(store, registry=registry):
        await client.start("w", run_id="r")
        await eventually(client, "r", "waiting")
        await client.signal("w", "r", "go", "went")
        outcome = await client.result("w", "r", drive=False, timeout=20)
    assert outcome.output == "went"


async def test_draining_stops_at_a_boundary_and_the_next_worker_goes_on(
    store: Store, registry: Registry
) -> None:
    effects: list[str] = []
    began = asyncio.Event()

    async def slow(name: str) -> None:
        began.set()
        await asyncio.sleep(0.05)
        effects.append(name)

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.step("one", slow, "one")
        await ctx.step("two", slow, "two")
        return "done"

    client = Client(store, registry=registry)
    async with Worker(store, registry=registry):
        await client.start("w", run_id="r")
        await began.wait()
    assert effects == ["one"]
    assert (await client.head(RunKey("w", "r"))).shown_status == "queued"
    async with Worker(store, registry=registry):
        outcome = await client.result("w", "r", drive=False, timeout=20)
    assert (outcome.output, effects) == ("done", ["one", "two"])


async def test_a_run_of_a_version_nobody_has_waits_or_fails_as_the_policy_says(
    store: Store, registry: Registry
) -> None:
    @workflow(name="w", version="1", registry=registry)
    async def old(ctx: Any) -> None: ...

    client = Client(store, registry=registry)
    await client.start("w", run_id="r")
    newer = Registry()

    @workflow(name="w", version="2", registry=newer)
    async def new(ctx: Any) -> None: ...

    async with Worker(store, registry=newer):
        await asyncio.sleep(0.1)
    assert (await client.head(RunKey("w", "r"))).shown_status == "queued"
    options = WorkerOptions(stranded_policy=StrandedPolicy.FAIL, stranded_timeout=0.0)
    async with Worker(store, options, registry=newer):
        await eventually(client, "r", "error")
    view = await client.describe("w", "r")
    assert view.error is not None
    assert view.error.code == "no_compatible_worker"
    assert "'1'" in view.error.message


class FlakyStore:
    """A store that is unreachable for the appends in ``broken``, before they are applied."""

    def __init__(self, inner: Store, broken: set[int]) -> None:
        self.inner = inner
        self.broken = broken
        self.appends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def submit(self, op: Any) -> Future[Any]:
        if isinstance(op, Append) and op.events:
            self.appends += 1
            if self.appends in self.broken:
                lost: Future[Any] = Future()
                lost.set_exception(StoreUnavailable("the network is down"))
                return lost
        return self.inner.submit(op)

    async def call(self, op: Any) -> Any:
        return await asyncio.wrap_future(self.submit(op))


async def test_a_store_outage_requeues_the_run_under_its_own_reason(
    store: Store, registry: Registry
) -> None:
    effects: list[str] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.step("one", effects.append, "one")
        await ctx.step("two", effects.append, "two")
        return "done"

    flaky: Any = FlakyStore(store, broken={2})
    client = Client(store, registry=registry)
    await client.start("w", run_id="r")
    async with Worker(flaky, registry=registry):
        outcome = await client.result("w", "r", drive=False, timeout=20)
    reasons = [
        event.data["reason"]
        for event in await client.history("w", "r")
        if event.type == "run:requeued"
    ]
    assert (outcome.output, reasons) == ("done", ["store_unavailable"])
    assert effects == ["one", "two", "two"]


async def test_a_store_that_stays_away_ends_the_run_with_the_number_of_attempts(
    store: Store, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.step("one", lambda: None)

    flaky: Any = FlakyStore(store, broken=set(range(1, 5)))
    client = Client(store, registry=registry)
    await client.start("w", run_id="r")
    options = WorkerOptions(max_store_requeues=3)
    async with Worker(flaky, options, registry=registry):
        with pytest.raises(DurableInvocationError) as caught:
            await client.result("w", "r", drive=False, timeout=20)
    assert caught.value.code == "store_unavailable"
    assert caught.value.detail == {"attempts": 4}


async def test_a_journal_that_cannot_be_read_is_tried_a_few_times_and_then_ended(
    tmp_path: Path, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None: ...

    path = tmp_path / "runs.db"
    store = open_store(f"sqlite:///{path}")
    client = Client(store, registry=registry)
    await client.start("w", run_id="r")
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE event SET frame = zeroblob(64)")
    connection.close()
    async with Worker(store, WorkerOptions(poison_max_retries=2), registry=registry):
        await eventually(client, "r", "error")
    row = await client.head(RunKey("w", "r"))
    assert row.error_code == "journal_corrupt"
    store.close()


async def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="concurrency"):
        WorkerOptions(concurrency=0)
