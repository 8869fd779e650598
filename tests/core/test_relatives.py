"""Child runs, updates and questions that expire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula_core import (
    ChildWorkflowError,
    Client,
    DurableInvocationCancelled,
    InlineWorkflowRunner,
    Poison,
    Registry,
    UpdateError,
    UpdateRejected,
    Worker,
    workflow,
)
from pyrula_core.model import RunKey
from pyrula_core.ports import Store


async def test_a_child_run_gives_its_output_to_its_parent_once(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    effects: list[str] = []

    @workflow(name="child", registry=registry)
    async def child(ctx: Any, n: int) -> int:
        await ctx.step("work", effects.append, f"work{n}")
        return n * 2

    @workflow(name="w", registry=registry)
    async def parent(ctx: Any) -> list[int]:
        results = [await ctx.run_child("child", n) for n in range(2)]
        await ctx.interrupt("hold")
        return results

    asked = await runner.run("w", "r")
    await runner.client.answer("w", "r", asked.interrupts[0].id, None)
    assert (await runner.run("w", "r")).output == [0, 2]
    assert effects == ["work0", "work1"]
    page = await runner.client.list(name="child")
    assert {row.parent for row in page.rows} == {"w/r"}


async def test_children_run_side_by_side(runner: InlineWorkflowRunner, registry: Registry) -> None:
    @workflow(name="child", registry=registry)
    async def child(ctx: Any, n: int) -> int:
        await ctx.sleep(0.01)
        return n

    @workflow(name="w", registry=registry)
    async def parent(ctx: Any) -> list[int]:
        return list(await asyncio.gather(*(ctx.run_child("child", n) for n in range(5))))

    assert (await runner.run("w", "r")).output == [0, 1, 2, 3, 4]


async def test_a_child_that_fails_raises_in_its_parent_with_its_codes(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="child", registry=registry)
    async def child(ctx: Any) -> None:
        raise Poison("bad", code="bad.input")

    @workflow(name="w", registry=registry)
    async def parent(ctx: Any) -> list[Any]:
        try:
            await ctx.run_child("child", run_id="kid")
        except ChildWorkflowError as error:
            return [error.run_id, error.child_code, error.user_code]
        return []

    assert (await runner.run("w", "r")).output == ["kid", "poison", "bad.input"]


@pytest.mark.parametrize("policy, status", [("cancel", "cancelled"), ("abandon", "waiting")])
async def test_a_cancelled_parent_does_with_its_child_what_the_policy_says(
    runner: InlineWorkflowRunner, registry: Registry, policy: Any, status: str
) -> None:
    @workflow(name="child", registry=registry)
    async def child(ctx: Any) -> None:
        await ctx.wait_for_signal("never")

    @workflow(name="w", registry=registry)
    async def parent(ctx: Any) -> None:
        await ctx.run_child("child", run_id="kid", parent_close=policy)

    assert (await runner.run("w", "r")).status == "waiting"
    await runner.client.cancel("w", "r")
    with pytest.raises(DurableInvocationCancelled):
        await runner.run("w", "r")
    assert (await runner.client.head(RunKey("child", "kid"))).shown_status == status


async def test_a_worker_drives_parents_and_children(store: Store, registry: Registry) -> None:
    @workflow(name="child", registry=registry)
    async def child(ctx: Any, n: int) -> Any:
        return await ctx.wait_for_signal("go")

    @workflow(name="w", registry=registry)
    async def parent(ctx: Any) -> Any:
        return await ctx.run_child("child", 1, run_id="kid")

    client = Client(store, registry=registry)
    async with Worker(store, registry=registry):
        await client.start("w", run_id="r")
        async with asyncio.timeout(20):
            while not (await client.list(name="child", status="waiting")).rows:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await client.signal("child", "kid", "go", "went")
        outcome = await client.result("w", "r", drive=False, timeout=20)
    assert outcome.output == "went"


async def test_updates_change_the_body_once_and_are_answered(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    effects: list[int] = []

    @workflow(name="w", registry=registry)
    async def cart(ctx: Any) -> list[int]:
        items: list[int] = []

        def positive(n: int) -> None:
            if n <= 0:
                raise ValueError("only positive numbers")

        async def add(n: int) -> int:
            await ctx.step("note", effects.append, n)
            items.append(n)
            if n == 13:
                raise RuntimeError("unlucky")
            return sum(items)

        ctx.on_update("add", add, positive)
        await ctx.wait_for_signal("checkout")
        return items

    client = runner.client
    assert (await runner.run("w", "r")).status == "waiting"
    assert await client.update("w", "r", "add", 3) == 3
    assert await client.update("w", "r", "add", 4, update_id="u2") == 7
    assert await client.update("w", "r", "add", 4, update_id="u2") == 7
    with pytest.raises(UpdateRejected, match="only positive"):
        await client.update("w", "r", "add", -1)
    with pytest.raises(UpdateError, match="unlucky"):
        await client.update("w", "r", "add", 13)
    await client.signal("w", "r", "checkout")
    assert (await runner.run("w", "r")).output == [3, 4, 13]
    assert effects == [3, 4, 13]


async def test_a_query_is_answered_from_the_journal_without_an_effect(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    effects: list[str] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        progress = {"done": 0}
        ctx.on_query("progress", lambda: dict(progress))
        for name in ("a", "b"):
            await ctx.step(name, effects.append, name)
            progress["done"] += 1
        await ctx.wait_for_signal("go")
        await ctx.step("c", effects.append, "c")

    await runner.run("w", "r")
    before = await runner.client.history("w", "r")
    assert await runner.client.query("w", "r", "progress") == {"done": 2}
    assert effects == ["a", "b"]
    assert await runner.client.history("w", "r") == before


async def test_a_question_that_nobody_answers_expires_with_its_default(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> Any:
        first = await ctx.interrupt("ok?", timeout=0.02, default="nobody")
        return [first, await ctx.interrupt("sure?")]

    asked = await runner.run("w", "r")
    view = await runner.client.describe("w", "r")
    assert [question.value for question in view.interrupts] == ["sure?"]
    await runner.client.answer("w", "r", asked.interrupts[0].id, "yes")
    assert (await runner.run("w", "r")).output == ["nobody", "yes"]
