"""What callers may ask of runs, and how they are told what they may not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula_core import (
    Client,
    DurableInvocationError,
    DurableInvocationTimeout,
    InlineWorkflowRunner,
    InterruptConflictError,
    InterruptNotFoundError,
    InvalidAnswerError,
    NotRegisteredError,
    Registry,
    RunConflictError,
    RunFinishedError,
    RunNotFoundError,
    current_run,
    workflow,
)
from pyrula_core.ports import Store


async def test_bad_calls_are_refused_with_a_code_and_a_next_action(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    client = runner.client

    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> Any:
        return await ctx.interrupt("?", response_schema={"type": "integer"})

    with pytest.raises(NotRegisteredError) as unknown:
        await client.start("nobody", 1)
    with pytest.raises(RunNotFoundError) as missing:
        await client.describe("w", "nope")
    asked = await runner.run("w", "r", 1)
    question = asked.interrupts[0].id
    with pytest.raises(RunConflictError) as conflict:
        await client.start("w", 2, run_id="r")
    with pytest.raises(InterruptNotFoundError) as stranger:
        await client.answer("w", "r", "0" * 32, 1)
    with pytest.raises(InvalidAnswerError) as invalid:
        await client.answer("w", "r", question, "one")
    await client.answer("w", "r", question, 1)
    await client.answer("w", "r", question, 1)
    with pytest.raises(InterruptConflictError) as other:
        await client.answer("w", "r", question, 2)
    assert (await runner.run("w", "r")).output == 1
    with pytest.raises(RunFinishedError) as finished:
        await client.signal("w", "r", "go")
    codes = [
        each.value.code for each in (unknown, missing, conflict, stranger, invalid, other, finished)
    ]
    assert codes == [
        "not_registered",
        "run_not_found",
        "run_conflict",
        "interrupt_not_found",
        "interrupt_invalid_answer",
        "interrupt_conflict",
        "run_finished",
    ]
    for each in (unknown, missing, conflict, stranger, invalid, other, finished):
        assert each.value.hint


@pytest.mark.parametrize("run_id", ["", "a b", "x" * 201, "ü", "a/b"])
async def test_an_illegal_run_id_is_refused(
    runner: InlineWorkflowRunner, registry: Registry, run_id: str
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None: ...

    with pytest.raises(ValueError, match="run_id"):
        await runner.run("w", run_id)


async def test_start_is_idempotent_by_run_id_and_by_idempotency_key(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> int:
        return n

    client = runner.client
    assert await client.start("w", 1, run_id="r") == await client.start("w", 1, run_id="r")
    first = await client.start("w", 1, idempotency_key="k")
    assert await client.start("w", 1, idempotency_key="k") == first
    with pytest.raises(RunConflictError):
        await client.start("w", 2, idempotency_key="k")


async def test_a_timeout_leaves_the_run_going_and_a_second_call_gets_its_result(
    store: Store, registry: Registry
) -> None:
    gate = asyncio.Event()
    effects: list[str] = []

    async def slow() -> str:
        effects.append("slow")
        await gate.wait()
        return "slow"

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        return str(await ctx.step("slow", slow))

    client = Client(store, registry=registry)
    with pytest.raises(DurableInvocationTimeout):
        await client.run_and_await("w", run_id="r", timeout=0.05)
    gate.set()
    outcome = await client.run_and_await("w", run_id="r", timeout=30)
    assert (outcome.output, effects) == ("slow", ["slow"])


async def test_two_callers_of_one_run_drive_it_once(store: Store, registry: Registry) -> None:
    effects: list[str] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.step("x", effects.append, "x")
        await ctx.step("y", asyncio.sleep, 0.01)
        return "done"

    clients = [Client(store, registry=registry) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(client.run_and_await("w", run_id="r") for client in clients for _ in range(2))
    )
    assert {outcome.output for outcome in outcomes} == {"done"}
    assert effects == ["x"]


async def test_a_page_of_runs_is_newest_first_and_can_be_filtered(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, fail: bool) -> None:
        if fail:
            raise ValueError

    for number in range(5):
        if number % 2:
            with pytest.raises(DurableInvocationError):
                await runner.run("w", f"r{number}", True)
        else:
            await runner.run("w", f"r{number}", False)
    page = await runner.client.list(name="w", limit=2)
    rest = await runner.client.list(name="w", limit=10, cursor=page.cursor)
    failed = await runner.client.list(status="error")
    assert [row.key.run_id for row in page.rows] == ["r4", "r3"]
    assert [row.key.run_id for row in rest.rows] == ["r2", "r1", "r0"]
    assert [row.key.run_id for row in failed.rows] == ["r3", "r1"]
    with pytest.raises(ValueError, match="nonsense"):
        await runner.client.list(status="nonsense")


async def test_a_durable_call_from_a_foreign_thread_says_what_is_wrong() -> None:
    with pytest.raises(RuntimeError, match="no durable run is active"):
        current_run()
