"""Golden journals: code that still fits replays without a step, code that does not is told why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula_core import JournalError, NondeterminismError
from pyrula_core.events import EventType
from pyrula_core.testing import Replayed, journal_from_json, journal_to_json, replay, simulate
from tests.simulation.workloads import WORKLOADS, linear, work


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "chain"])
def test_the_journal_of_every_workload_replays_from_its_text(name: str) -> None:
    scenario, usual = WORKLOADS[name].scenario, WORKLOADS[name].usual
    world = {"answers": scenario.answers, "signals": scenario.signals}
    world |= {"cancel_at": scenario.cancel_at, "signal_every": scenario.signal_every}
    case = simulate(scenario.body, *scenario.args, **world)
    text = journal_to_json(case.history)
    assert journal_from_json(text) == list(case.history)
    assert replay(text, scenario.body) == Replayed(usual.status, usual.output)


def test_no_step_runs() -> None:
    history = simulate(linear, 3).history
    ran: list[str] = []

    async def same(ctx: Any, count: int) -> list[str]:
        return [await ctx.step("work", ran.append, f"n{number}") for number in range(count)]

    assert replay(history, same).output == ["n0", "n1", "n2"]
    assert ran == []


async def renamed(ctx: Any, count: int) -> list[str]:
    return [await ctx.step("toil", work, f"n{number}") for number in range(count)]


async def other_arguments(ctx: Any, count: int) -> list[str]:
    return [await ctx.step("work", work, f"m{number}") for number in range(count)]


async def one_more(ctx: Any, count: int) -> list[str]:
    return await linear(ctx, count + 1)


async def one_less(ctx: Any, count: int) -> list[str]:
    return await linear(ctx, count - 1)


async def other_result(ctx: Any, count: int) -> list[str]:
    return (await linear(ctx, count))[::-1]


async def waits_first(ctx: Any, count: int) -> list[str]:
    await ctx.sleep(1000.0)
    return await linear(ctx, count)


async def fails_at_the_end(ctx: Any, count: int) -> None:
    await linear(ctx, count)
    raise ValueError("no")


@pytest.mark.parametrize(
    "body,words",
    [
        (renamed, "step 'toil#0'"),
        (other_arguments, "other arguments"),
        (one_more, "step 'work#3'"),
        (one_less, "the end of the body"),
        (other_result, "complete"),
        (waits_first, "sleep#0"),
        (fails_at_the_end, "error internal"),
    ],
)
async def test_code_that_no_longer_fits_is_told_where_and_why(body: Any, words: str) -> None:
    history = (await asyncio.to_thread(simulate, linear, 3)).history
    with pytest.raises(NondeterminismError) as caught:
        replay(history, body)
    assert words in caught.value.message
    assert caught.value.recorded
    assert caught.value.asked


def test_an_open_journal_says_what_comes_next() -> None:
    history = simulate(linear, 3).history
    started = [event.type for event in history].index(EventType.STEP_DONE)
    assert replay(history[: started + 1], linear).asked == ("step 'work#1'",)
    assert replay(history[:1], linear) == Replayed("open", asked=("step 'work#0'",))


def test_a_failed_run_replays_to_its_failure_and_another_failure_is_told() -> None:
    async def broken(ctx: Any) -> None:
        await ctx.step("fine", work, "fine")
        raise KeyError("gone")

    async def otherwise(ctx: Any) -> None:
        await ctx.step("fine", work, "fine")
        raise ValueError("other")

    history = simulate(broken).history
    assert replay(history, broken).status == "error"
    with pytest.raises(NondeterminismError, match="error internal"):
        replay(history, otherwise)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"seq": 1, "type": "nothing"}]', "[]"])
def test_a_text_that_is_no_journal_is_refused(text: str) -> None:
    with pytest.raises(JournalError):
        replay(text, linear)
