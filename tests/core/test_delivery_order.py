"""Replay hands completions over in the order in which they were recorded, whatever came first."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from pyrula_core import Context, Event, OutcomeUnknown
from tests.core.cut_journals import Effects, cut, drive, finished, history, prefixes, steps

BRANCHES = range(10)
LEAVES = range(3)


def gathered(effects: Effects) -> Any:
    """Ten sequences of three steps; the output is the order in which they came to their ends."""

    async def body(ctx: Context) -> list[int]:
        ended: list[int] = []

        async def branch(number: int) -> None:
            for leaf in LEAVES:
                await ctx.step("leaf", effects.work, f"{number}.{leaf}")
            ended.append(number)

        await asyncio.gather(*(branch(number) for number in BRANCHES))
        return ended

    return body


def scattered(seed: int) -> Effects:
    """Return effects whose lengths are drawn anew for each seed."""
    draw = random.Random(seed)
    names = [f"{branch}.{leaf}" for branch in BRANCHES for leaf in LEAVES]
    return Effects({name: draw.randrange(300) for name in names})


def order_in(events: Sequence[Event]) -> list[int]:
    """Return the order in which branches ended, as the journal has it."""
    places = {key: place for place, key in enumerate(steps(events))}
    return sorted(BRANCHES, key=lambda branch: places[f"~{branch}/leaf#2"])


async def test_ten_gathered_scopes_replay_in_the_order_in_which_they_ended() -> None:
    orders = set()
    for seed in range(40):
        ended, events = await finished(gathered(scattered(seed)))
        assert ended == order_in(events)
        orders.add(tuple(ended))
        again = scattered(seed + 1000)
        assert await drive(gathered(again), await cut(events)) == ended
        assert again.ran == [], "what is recorded does not run"
    assert len(orders) > 30, "the seeds make a difference"


async def test_ten_gathered_scopes_go_on_from_any_point_of_their_journal() -> None:
    _, events = await finished(gathered(scattered(7)))
    for prefix in prefixes(events):
        again = scattered(8)
        store = await cut(prefix)
        ended = await drive(gathered(again), store)
        journal = await history(store)
        assert ended == order_in(journal)
        assert steps(journal)[: len(steps(prefix))] == steps(prefix)
        assert len(again.ran) == 30 - len(steps(prefix)), "what is recorded does not run"


# --- races ----------------------------------------------------------------------------------------

QUICK_TORTOISE = {"hare": 200, "tortoise": 1}
QUICK_HARE = {"hare": 1, "tortoise": 200}


def race(effects: Effects, *, loser: str) -> Any:
    """Two steps against each other; what the winner has won depends on it.

    ``loser`` says what becomes of the other one: ``awaited``, ``cancelled`` or ``left`` alone.
    """

    async def body(ctx: Context) -> str:
        await ctx.step("start", effects.work, "start")
        tasks = {
            asyncio.create_task(ctx.step(name, effects.work, name)): name
            for name in ("hare", "tortoise")
        }
        done, slower = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1, "one completion is seen at a time"
        winner = tasks[done.pop()]
        medal = await ctx.step(f"medal for {winner}", effects.work, "medal")
        if loser == "awaited":
            await asyncio.gather(*slower)
        elif loser == "cancelled":
            slower.pop().cancel()
        await ctx.step("end", effects.work, "end")
        return f"{medal} for {winner}"

    return body


@pytest.mark.parametrize("loser", ["awaited", "cancelled", "left"])
async def test_a_race_is_won_by_the_same_side_from_the_moment_it_is_recorded(loser: str) -> None:
    output, events = await finished(race(Effects(QUICK_TORTOISE), loser=loser))
    assert output == "medal for tortoise"
    for prefix in prefixes(events):
        again = Effects(QUICK_HARE)
        taken = await drive(race(again, loser=loser), await cut(prefix))
        decided = "~1/tortoise#0" in steps(prefix)
        assert taken == ("medal for tortoise" if decided else "medal for hare")
        recorded = {key.rpartition("/")[2].partition("#")[0] for key in steps(prefix)}
        assert not recorded & set(again.ran), "what is recorded does not run"


async def test_both_sides_of_a_race_in_the_journal_are_still_seen_one_after_the_other() -> None:
    """The smallest form of it: nothing else is under way when the race is replayed."""

    def body_with(turns: dict[str, int]) -> Any:
        effects = Effects(turns)

        async def body(ctx: Context) -> list[str]:
            tasks = {
                asyncio.create_task(ctx.step(name, effects.work, name)): name
                for name in ("hare", "tortoise")
            }
            done, slower = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*slower)
            return sorted(tasks[task] for task in done)

        return body

    output, events = await finished(body_with(QUICK_HARE))
    assert output == ["hare"]
    assert await drive(body_with({}), await cut(events)) == ["hare"]


COURIERS = range(5)


def deliveries(effects: Effects, *, as_tasks: bool) -> Any:
    """Five steps, taken as they come; each arrival is followed by a step of its own."""

    async def body(ctx: Context) -> list[str]:
        calls: list[Any] = [ctx.step("go", effects.work, f"go {number}") for number in COURIERS]
        if as_tasks:
            calls = [asyncio.create_task(call) for call in calls]
        arrived = []
        for call in asyncio.as_completed(calls):
            arrived.append(await call)
            await ctx.step("sign", effects.work, f"sign {arrived[-1]}")
        return arrived

    return body


LATE_FIRST = {f"go {number}": 100 * (5 - number) for number in COURIERS}
LATE_LAST = {f"go {number}": 100 * number for number in COURIERS}


@pytest.mark.parametrize("as_tasks", [True, False], ids=["tasks", "coroutines"])
async def test_as_completed_takes_the_recorded_arrivals_in_the_recorded_order(
    as_tasks: bool,
) -> None:
    output, events = await finished(deliveries(Effects(LATE_FIRST), as_tasks=as_tasks))
    assert output == [f"go {number}" for number in (4, 3, 2, 1, 0)]
    for prefix in prefixes(events):
        again = Effects(LATE_LAST)
        arrived = await drive(deliveries(again, as_tasks=as_tasks), await cut(prefix))
        came = sum("/go#0" in key for key in steps(prefix))
        assert arrived[:came] == output[:came]
        assert sorted(arrived) == sorted(output)
        assert len(again.ran) == len(events) - 2 - len(steps(prefix))


# --- what bodies do beside their steps ------------------------------------------------------------


async def test_a_failure_that_was_caught_is_seen_in_its_place_again() -> None:
    def body_with(effects: Effects) -> Any:
        async def body(ctx: Context) -> list[str]:
            seen = []

            async def branch(name: str, fails: bool) -> None:
                try:
                    await ctx.step(name, effects.fail if fails else effects.work, name)
                except ValueError as error:
                    seen.append(f"failed {error}")
                else:
                    seen.append(name)
                seen.append(await ctx.step("after", effects.work, f"after {name}"))

            await asyncio.gather(branch("a", False), branch("b", True), branch("c", False))
            return seen

        return body

    effects = Effects({"a": 50, "c": 20, "after b": 5})
    output, events = await finished(body_with(effects))
    assert output.index("failed b") < output.index("c") < output.index("a")
    for prefix in prefixes(events):
        store = await cut(prefix)
        assert sorted(await drive(body_with(Effects()), store)) == sorted(output)
    assert await drive(body_with(Effects()), await cut(events)) == output


async def test_a_task_that_the_body_did_not_wait_for_is_no_nondeterminism() -> None:
    def body_with(effects: Effects) -> Any:
        async def body(ctx: Context) -> str:
            aside = asyncio.create_task(ctx.step("aside", effects.work, "aside"))
            await ctx.step("main", effects.work, "main")
            return f"{aside.get_coro().__name__} was not waited for"

        return body

    output, events = await finished(body_with(Effects()))
    for prefix in prefixes(events):
        assert await drive(body_with(Effects()), await cut(prefix)) == output


async def test_a_timer_fires_while_a_step_is_running() -> None:
    """The usual way to bound a wait: whichever is first, the step or the clock."""
    stop = asyncio.Event()

    async def body(ctx: Context) -> str:
        work = asyncio.create_task(ctx.step("work", stop.wait))
        clock = asyncio.create_task(ctx.sleep(0.01))
        done, _ = await asyncio.wait({work, clock}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await work
        return "clock" if clock in done else "work"

    asyncio.get_running_loop().call_later(1.0, stop.set)
    output, events = await finished(body)
    assert output == "clock"
    assert await drive(body, await cut(events)) == "clock"


@pytest.mark.parametrize("call", ["step", "once"])
async def test_a_step_that_the_body_gave_up_replays_as_given_up(call: str) -> None:
    """``asyncio.timeout`` around a step cancels it: it has no outcome, and the body goes on."""

    def body_with(effects: Effects) -> Any:
        async def body(ctx: Context) -> str:
            try:
                async with asyncio.timeout(0.01):
                    await getattr(ctx, call)("slow", asyncio.sleep, 60)
            except (TimeoutError, OutcomeUnknown):
                return await ctx.step("instead", effects.work, "instead")
            return "in time"

        return body

    output, events = await finished(body_with(Effects()))
    assert output == "instead"
    for prefix in prefixes(events):
        assert await drive(body_with(Effects()), await cut(prefix)) == output


async def test_a_body_that_waits_for_something_else_meanwhile_is_no_nondeterminism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call outside of a step may take longer on replay than the steps beside it."""
    monkeypatch.setattr("pyrula_core.delivery.replay_stall_s", 5.0)

    def body_with(effects: Effects, pause: float) -> Any:
        async def body(ctx: Context) -> list[str]:
            async def patient() -> str:
                await asyncio.sleep(pause)
                return await ctx.step("late", effects.work, "late")

            async def busy() -> str:
                await ctx.step("early", effects.work, "early")
                return await ctx.step("long", effects.work, "long")

            return await asyncio.gather(patient(), busy())

        return body

    output, events = await finished(body_with(Effects({"long": 2000}), 0.0))
    assert [key.rpartition("/")[2] for key in steps(events)] == ["early#0", "late#0", "long#0"]
    assert await drive(body_with(Effects(), 0.2), await cut(events)) == output


async def test_a_body_may_take_its_time_between_two_completions() -> None:
    """Whether another task is done is the same on replay, however long the body takes to look."""

    def body_with(effects: Effects, turns: int) -> Any:
        async def body(ctx: Context) -> bool:
            quick = asyncio.create_task(ctx.step("quick", effects.work, "quick"))
            slow = asyncio.create_task(ctx.step("slow", effects.work, "slow"))
            await quick
            for _ in range(turns):
                await asyncio.sleep(0)
            was_done = slow.done()
            await ctx.step("look", effects.work, "look")
            await slow
            return was_done

        return body

    output, events = await finished(body_with(Effects({"slow": 1000}), 20))
    assert output is False
    assert await drive(body_with(Effects(), 20), await cut(events)) is False
