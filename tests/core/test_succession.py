"""Retries, forks, bulk retries and pruning of plain workflows."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula_core import (
    DurableInvocationCancelled,
    DurableInvocationError,
    InlineWorkflowRunner,
    Registry,
    RetryRefusedError,
    workflow,
)


class Desk:
    """A workflow of three steps whose last one fails while ``broken``."""

    def __init__(self, registry: Registry) -> None:
        self.effects: list[str] = []
        self.keys: list[str] = []
        self.broken = True

        @workflow(name="w", registry=registry)
        async def body(ctx: Any, order: str) -> str:
            number = ctx.uuid()
            first = await ctx.step("first", self.note, f"first {order} {number}")
            second = await ctx.step("second", self.note, "second")
            return str(await ctx.step("third", self.last, ctx, f"{first}, {second}"))

    def note(self, text: str) -> str:
        self.effects.append(text.split(" ", maxsplit=1)[0])
        return text.split(" ", maxsplit=1)[0]

    def last(self, ctx: Any, text: str) -> str:
        self.keys.append(ctx.idempotency_key)
        self.effects.append("third")
        if self.broken:
            raise ConnectionError("down")
        return text


@pytest.fixture
def desk(registry: Registry) -> Desk:
    return Desk(registry)


async def fail(runner: InlineWorkflowRunner, run_id: str) -> None:
    with pytest.raises(DurableInvocationError):
        await runner.run("w", run_id, "o-1")


async def test_a_retry_serves_what_was_recorded_and_runs_the_failed_step(
    runner: InlineWorkflowRunner, desk: Desk
) -> None:
    await fail(runner, "r")
    desk.broken = False
    new = await runner.client.retry("w", "r")
    outcome = await runner.run("w", new)
    assert outcome.output == "first, second"
    assert desk.effects == ["first", "second", "third", "third"]
    assert desk.keys == ["w/r/third#0", "w/r/third#0"]
    created = (await runner.client.history("w", new))[0]
    assert created.data["retry_of"] == "r"
    assert await runner.client.retry("w", "r") == new


async def test_a_retry_that_fails_again_can_be_retried_again(
    runner: InlineWorkflowRunner, desk: Desk
) -> None:
    await fail(runner, "r")
    second = await runner.client.retry("w", "r")
    with pytest.raises(DurableInvocationError):
        await runner.run("w", second)
    third = await runner.client.retry("w", "r")
    desk.broken = False
    assert third not in ("r", second)
    assert (await runner.run("w", third)).output == "first, second"
    assert desk.effects.count("first") == 1


async def test_only_failed_runs_are_retried(runner: InlineWorkflowRunner, desk: Desk) -> None:
    desk.broken = False
    await runner.run("w", "done", "o")
    await runner.client.start("w", "o", run_id="gone")
    await runner.client.cancel("w", "gone")
    with pytest.raises(DurableInvocationCancelled):
        await runner.run("w", "gone")
    with pytest.raises(RetryRefusedError) as cancelled:
        await runner.client.retry("w", "gone")
    with pytest.raises(RetryRefusedError) as complete:
        await runner.client.retry("w", "done")
    assert (cancelled.value.code, complete.value.code) == ("retry_cancelled", "retry_not_failed")


async def test_a_fork_goes_its_own_way_from_a_step_with_patched_results(
    runner: InlineWorkflowRunner, desk: Desk
) -> None:
    desk.broken = False
    await runner.run("w", "r", "o")
    desk.effects.clear()
    new = await runner.client.fork("w", "r", at="third#0", patch={"second#0": "patched"})
    assert (await runner.run("w", new)).output == "first, patched"
    assert desk.effects == ["third"]
    assert desk.keys[-1] == f"w/{new}/third#0"
    early = await runner.client.fork("w", "r", at=3)
    assert (await runner.run("w", early)).output == "first, second"
    assert desk.effects == ["third", "first", "second", "third"]


async def test_a_fork_point_or_patch_that_is_not_there_is_refused(
    runner: InlineWorkflowRunner, desk: Desk
) -> None:
    desk.broken = False
    await runner.run("w", "r", "o")
    for options in ({"at": "fourth#0"}, {"at": 99}, {"at": "third#0", "patch": {"nope#0": 1}}):
        with pytest.raises(RetryRefusedError) as caught:
            await runner.client.fork("w", "r", **options)
        assert caught.value.code == "fork_point_unknown"


async def test_bulk_retry_takes_every_failed_run_of_a_code_once(
    runner: InlineWorkflowRunner, desk: Desk
) -> None:
    for number in range(3):
        await fail(runner, f"r{number}")
    assert await runner.client.retry_all(code="poison") == []
    started = await runner.client.retry_all("w", code="internal")
    assert sorted(started) == ["r0:r", "r1:r", "r2:r"]
    assert sorted(await runner.client.retry_all("w", code="internal")) == sorted(started)


async def test_prune_takes_ended_runs_only(runner: InlineWorkflowRunner, desk: Desk) -> None:
    await fail(runner, "failed")
    await runner.client.start("w", "o", run_id="open")
    later = runner.client.clock.time() + 10
    assert await runner.client.prune(before=0) == 0
    assert await runner.client.prune(before=later) == 1
    page = await runner.client.list()
    assert [row.key.run_id for row in page.rows] == ["open"]
