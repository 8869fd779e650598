"""The fixtures and functions that users get, used as a user's tests would use them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pyrula_core import workflow
from pyrula_core.testing import (
    FaultKind,
    explore,
    pyrula_clock,
    pyrula_runner,
    pyrula_simulate,
    pyrula_store,
    simulate,
)
from tests.simulation.workloads import DAY

__all__ = ["pyrula_clock", "pyrula_runner", "pyrula_simulate", "pyrula_store"]


@workflow(name="three-days")
async def three_days(ctx: Any, name: str) -> str:
    for _ in range(3):
        await ctx.sleep(DAY)
    return str(await ctx.step("send", lambda: f"hello {name}"))


def test_three_sleeps_of_a_day_take_milliseconds(pyrula_simulate: Any) -> None:
    pyrula_simulate(three_days, "warm up")
    began = time.monotonic()
    case = pyrula_simulate(three_days, "ann")
    assert case.outcome.output == "hello ann"
    assert case.executions == {"three_days/run/send#0": 1}
    assert time.monotonic() - began < 1.0


async def test_three_sleeps_of_a_day_on_a_clock_that_the_test_moves(
    pyrula_runner: Any, pyrula_clock: Any
) -> None:
    outcome = await pyrula_runner.run("three-days", "r", "ann")
    for _ in range(3):
        assert outcome.status == "waiting"
        pyrula_clock.advance(DAY)
        outcome = await pyrula_runner.run("three-days", "r")
    assert (outcome.status, outcome.output) == ("complete", "hello ann")
    assert len(await pyrula_runner.client.history("three-days", "r")) > 3


async def test_the_store_is_empty_and_on_the_clock(pyrula_store: Any, pyrula_clock: Any) -> None:
    from pyrula_core.ports import ListRuns, Now

    assert (await pyrula_store.call(ListRuns())).rows == ()
    assert await pyrula_store.call(Now()) == pyrula_clock.time()


async def test_a_workflow_can_be_explored_from_an_async_test() -> None:
    report = explore(three_days, "ann", kinds=[FaultKind.CRASH_AFTER], pairs=True)
    report.raise_for_violations()
    assert report.cases > report.writes
    assert "0 violations" in str(report)


def test_a_workflow_that_breaks_its_promise_is_reported_with_a_line_to_see_it_again() -> None:
    outside: list[int] = []

    async def impure(ctx: Any) -> int:
        outside.append(1)
        await ctx.step("one", lambda: 1)
        return len(outside)

    report = explore(impure, before_each=outside.clear)
    with pytest.raises(AssertionError, match="only='crash_after@2'"):
        report.raise_for_violations()
    again = explore(impure, before_each=outside.clear, only="crash_after@2")
    assert [str(one) for one in again.violations] == [
        str(one) for one in report.violations if one.faults == "crash_after@2"
    ]
    assert explore(impure, before_each=outside.clear, allowed=lambda _: True).cases == report.cases


def test_answers_may_depend_on_the_question() -> None:
    async def asks(ctx: Any) -> Any:
        return await ctx.interrupt({"n": 20}, name="double")

    assert simulate(asks, answers={"double": lambda asked: asked["n"] * 2}).outcome.output == 40
