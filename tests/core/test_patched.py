"""Changing code under runs that go on: ``ctx.patched``; and the sync form of the client."""

from __future__ import annotations

from typing import Any

from pyrula_core import Client, InlineWorkflowRunner, Registry, workflow
from pyrula_core.ports import Store


def define(registry: Registry, effects: list[str], *, changed: bool) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> list[bool]:
        seen: list[bool] = []
        await ctx.step("one", effects.append, "one")
        if changed:
            seen.append(await ctx.patched("between"))
            if seen[-1]:
                await ctx.step("between", effects.append, "between")
        await ctx.step("two", effects.append, "two")
        await ctx.interrupt("go on?")
        if changed:
            seen.append(await ctx.patched("late"))
            if seen[-1]:
                await ctx.step("late", effects.append, "late")
        await ctx.interrupt("and on?")
        return seen


async def answer_next(runner: InlineWorkflowRunner, run_id: str) -> Any:
    asked = await runner.run("w", run_id)
    await runner.client.answer("w", run_id, asked.interrupts[0].id, True)
    return await runner.run("w", run_id)


async def test_an_old_run_takes_only_the_changes_that_lie_before_it(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    effects: list[str] = []
    define(registry, effects, changed=False)
    await runner.run("w", "old")
    define(registry, effects, changed=True)
    await answer_next(runner, "old")
    outcome = await answer_next(runner, "old")
    assert outcome.output == [False, True]
    assert effects == ["one", "two", "late"]


async def test_a_new_run_takes_every_change_and_keeps_to_it(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    effects: list[str] = []
    define(registry, effects, changed=True)
    await answer_next(runner, "new")
    outcome = await answer_next(runner, "new")
    assert outcome.output == [True, True]
    assert effects == ["one", "between", "two", "late"]


def test_the_sync_client_has_the_same_calls(store: Store, registry: Registry) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> int:
        return int(await ctx.step("double", lambda: n * 2))

    calls = Client(store, registry=registry).sync
    assert calls.run_and_await("w", 4, run_id="r").output == 8
    assert calls.describe("w", "r").status == "complete"
    assert [row.key.run_id for row in calls.list(error_code=None).rows] == ["r"]
