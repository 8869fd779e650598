"""What the simulator has found in the engine, each as its smallest case.

A mark says that it is not repaired yet; when the test passes, the mark makes it fail: take it away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyrula_core.events import EventType
from pyrula_core.testing import Fault, Faults, FaultyStore, SimClock, SimLoop, run_simulated
from pyrula_core.testing.scenario import Case, Scenario, World, run_case
from pyrula_core.testing.sim_loop import simulation
from tests.simulation.workloads import work


def case_of(body: Callable[..., Any], faults: str = "", **world: Any) -> Case:
    scheduled = [Fault.parse(text) for text in faults.split(",") if text]
    return run_case(
        Scenario(body=body, patience=20_000.0, turns_max=2_000, **world), Faults(scheduled)
    )


async def nap(ctx: Any) -> int:
    await ctx.step("one", work, "one")
    await ctx.sleep(100.0)
    return int(await ctx.step("two", lambda: 2))


async def two_steps(ctx: Any) -> list[str]:
    return [await ctx.step("one", work, "one"), await ctx.step("two", work, "two")]


async def four_steps(ctx: Any) -> list[str]:
    return [await ctx.step(f"s{number}", work, f"s{number}") for number in range(4)]


@pytest.mark.parametrize("faults", ["clock_jump@2:-3600", "clock_jump@4:-3600"])
@pytest.mark.xfail(reason="timers are set and judged by the worker's clock, woken by the store's")
def test_a_worker_whose_clock_is_behind_does_not_claim_a_sleeping_run_for_ever(
    faults: str,
) -> None:
    case = case_of(nap, faults)
    assert (case.outcome.output, case.violations) == (2, ())
    claims = [event for event in case.history if event.type is EventType.RUN_CLAIMED]
    assert len(claims) < 20


def test_a_run_whose_journal_is_damaged_for_good_is_ended() -> None:
    case = case_of(two_steps, "crash_torn@3")
    assert (case.outcome.status, case.outcome.code) == ("error", "journal_corrupt")
    assert set(case.executions) == {"workflow/run/one#0", "workflow/run/two#0"}


@pytest.mark.xfail(reason="nobody raises StoreRolledBack: the attempt writes on behind the gap")
def test_a_store_that_lost_acknowledged_events_is_noticed() -> None:
    case = case_of(four_steps, "rolled_back@5")
    recorded = [event.data["key"] for event in case.history if event.type is EventType.STEP_DONE]
    assert case.outcome.code == "store_rolled_back" or recorded == ["s0#0", "s1#0", "s2#0", "s3#0"]


def test_a_cancelled_attempt_gives_its_run_back() -> None:
    case = case_of(two_steps, "cancel@2", latency=0.01)
    assert (case.outcome.output, case.violations) == (["one", "two"], ())


def test_a_run_that_waits_in_place_does_not_ask_the_store_again_and_again() -> None:
    async def short(ctx: Any) -> None:
        await ctx.sleep(4.0)

    with simulation(0, turns_max=6_000) as loop:
        store = FaultyStore(Scenario(body=short).store_factory(SimClock(loop)))
        store.medium.tells_all = True
        asked = counted(store, loop, short)
    assert asked < 60


def counted(store: FaultyStore, loop: SimLoop, body: Any) -> int:
    """Return how many operations a run needs on a store that tells of empty appends as well."""
    asked: list[object] = []
    world = World(Scenario(body=body), loop, store)
    world.oracle.applied = lambda op, *_: asked.append(op)  # type: ignore[method-assign]
    loop.run_until_complete(world.run())
    return len(asked)


def test_simulations_can_be_started_from_tests_that_run_on_a_loop() -> None:
    async def nothing() -> None: ...

    run_simulated(nothing())
