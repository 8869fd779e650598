"""Sleep, signals, pause, cancel and continue_as_new of a plain workflow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula_core import (
    DurableInvocationCancelled,
    InlineWorkflowRunner,
    Registry,
    RetryPolicy,
    RunNotWaitingError,
    workflow,
)
from pyrula_core.model import RunKey
from tests.core.journals import types_of


async def test_a_durable_sleep_is_recorded_and_waited_for(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.sleep(0.02)
        return "awake"

    assert (await runner.run("w", "r")).output == "awake"
    assert (await types_of(runner, "r"))[2:4] == ["timer:set", "timer:fired"]


async def test_a_long_sleep_frees_the_process_and_is_shown_as_waiting(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.sleep(3600)

    assert (await runner.run("w", "r")).status == "waiting"
    row = await runner.client.head(RunKey("w", "r"))
    assert row.wake_at is not None
    assert row.owner is None


async def test_signals_are_read_once_and_in_order(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> list[Any]:
        return [await ctx.wait_for_signal("go") for _ in range(3)]

    assert (await runner.run("w", "r")).status == "waiting"
    for value in (1, {"x": 2}):
        await runner.client.signal("w", "r", "go", value)
    assert (await runner.run("w", "r")).status == "waiting"
    await runner.client.signal("w", "r", "go", None, dedupe="s3")
    await runner.client.signal("w", "r", "go", None, dedupe="s3")
    assert (await runner.run("w", "r")).output == [1, {"x": 2}, None]


async def test_waiting_for_a_signal_can_time_out(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.wait_for_signal("go", timeout=0.02)
        except TimeoutError:
            return "nobody"
        return "no"

    assert (await runner.run("w", "r")).output == "nobody"


async def test_cancel_ends_a_resting_run_and_a_swallowed_cancel_still_counts(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    cleaned: list[str] = []
    client = runner.client

    async def cancel_us() -> None:
        await client.cancel("w", "r", reason="enough")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("cancel", cancel_us)
            await ctx.step("after", cleaned.append, "must not run")
        except BaseException:
            cleaned.append("swallowed")
        finally:
            cleaned.append("finally")
        return "swallowed"

    with pytest.raises(DurableInvocationCancelled):
        await runner.run("w", "r")
    assert cleaned == ["swallowed", "finally"]
    assert (await client.describe("w", "r")).status == "cancelled"
    await client.cancel("w", "r")


async def test_pause_stops_at_the_next_boundary_and_resume_goes_on(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    client, effects = runner.client, []

    async def pause_us() -> None:
        effects.append("one")
        await client.pause("w", "r")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.step("one", pause_us)
        await ctx.step("two", effects.append, "two")
        return "done"

    assert (await runner.run("w", "r")).status == "paused"
    assert effects == ["one"]
    assert (await client.describe("w", "r")).status == "paused"
    await client.resume("w", "r")
    with pytest.raises(RunNotWaitingError):
        await client.resume("w", "r")
    assert (await runner.run("w", "r")).output == "done"
    assert effects == ["one", "two"]


async def test_what_a_sibling_did_while_the_run_was_paused_is_recorded(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    client, effects = runner.client, []

    async def pause_us() -> None:
        await client.pause("w", "r")

    async def slow() -> str:
        await asyncio.sleep(0.05)
        effects.append("slow")
        return "slow"

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> list[Any]:
        return list(await asyncio.gather(ctx.step("pause", pause_us), ctx.step("slow", slow)))

    assert (await runner.run("w", "r")).status == "paused"
    await client.resume("w", "r")
    assert (await runner.run("w", "r")).output == [None, "slow"]
    assert effects == ["slow"]


async def test_continue_as_new_is_followed_to_the_run_with_the_result(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, left: int) -> str:
        if left:
            await ctx.continue_as_new(left - 1)
        return f"done by {ctx.run_id}"

    outcome = await runner.run("w", "r", 2)
    assert outcome.output == "done by r:c2"
    assert (await runner.client.describe("w", "r")).continued_to == "r:c1"


async def test_durable_retries_keep_their_count_and_free_the_process(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    tries: list[int] = []
    policy = RetryPolicy(max_attempts=3, initial_backoff=3600, max_backoff=3600, durable=True)

    def flaky() -> str:
        tries.append(len(tries))
        raise ConnectionError("down")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("call", flaky, retry=policy)
        except ConnectionError:
            return f"gave up after {len(tries)}"
        return "no"

    assert (await runner.run("w", "r")).status == "waiting"
    assert tries == [0]
    row = await runner.client.head(RunKey("w", "r"))
    assert row.wake_at is not None
    assert row.owner is None
    assert (await types_of(runner, "r"))[2:] == ["step:retrying"]


async def test_durable_retries_go_on_counting_after_a_restart(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    tries: list[int] = []
    policy = RetryPolicy(max_attempts=4, initial_backoff=0.01, jitter=0.0, durable=True)

    async def flaky() -> str:
        tries.append(len(tries))
        if len(tries) == 2:
            await runner.client.pause("w", "r")
        raise ConnectionError("down")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("call", flaky, retry=policy)
        except ConnectionError:
            return "gave up"
        return "no"

    assert (await runner.run("w", "r")).status == "paused"
    assert len(tries) == 2
    await runner.client.resume("w", "r")
    assert (await runner.run("w", "r")).output == "gave up"
    assert len(tries) == 4
