"""The workflows that are simulated, each with the world it needs.

Every body is written as a user would write one: all that it does to the outside is a step, all that
it knows comes from ``ctx``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyrula_core import OutcomeUnknown, RetryPolicy, step
from pyrula_core.testing.scenario import Outcome, Scenario

DAY = 86_400.0


async def work(name: str, seconds: float = 0.0) -> str:
    """Be a step that takes a while."""
    if seconds:
        await asyncio.sleep(seconds)
    return name


async def linear(ctx: Any, count: int) -> list[str]:
    return [await ctx.step("work", work, f"n{number}") for number in range(count)]


async def fan_out(ctx: Any, count: int) -> list[Any]:
    async def branch(number: int) -> str:
        return str(await ctx.step("fetch", work, f"f{number}", (number * 7 % count) / 10))

    return await asyncio.gather(*(branch(number) for number in range(count)))


async def nested(ctx: Any) -> str:
    async def outer(name: str) -> str:
        first = await step("inner", work, f"{name}-1", 0.1)
        second = await step("inner", work, f"{name}-2", 0.1)
        return f"{first}+{second}"

    async def batch() -> list[str]:
        return [await step("part", outer, "deep"), await step("last", work, "leaf")]

    one = await ctx.step("outer", outer, "a")
    two = await ctx.step("batch", batch)
    return f"{one} {two}"


async def retrying(ctx: Any) -> list[str]:
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return "there"

    def never() -> None:
        raise TimeoutError("never")

    policy = RetryPolicy(max_attempts=4, initial_backoff=2.0, max_backoff=60.0)
    found = [await ctx.step("flaky", flaky, retry=policy)]
    try:
        await ctx.step("never", never, retry=RetryPolicy(max_attempts=2, initial_backoff=1.0))
    except TimeoutError as error:
        found.append(str(error))
    return [*found, await ctx.step("after", work, "after")]


async def timers(ctx: Any) -> str:
    before = ctx.now()
    await ctx.sleep(0.2)
    await ctx.step("tick", work, "tick")
    await asyncio.gather(ctx.sleep(DAY), ctx.sleep(2.0), ctx.sleep(30.0))
    await ctx.step("tock", work, "tock")
    await ctx.sleep(3 * DAY)
    return f"slept {(ctx.now() - before).days} days"


async def race(ctx: Any) -> list[str]:
    """The branches that are taken depend on who is first; a replay must take the same."""

    async def slow(number: int) -> str:
        return str(await ctx.step(f"racer{number}", work, f"r{number}", number / 2))

    tasks = {asyncio.create_task(slow(number)) for number in (3, 1, 2)}
    order: list[str] = []
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=asyncio.Task.result):  # A set has no order of its own.
            order.append(task.result())
            await ctx.step(f"after-{task.result()}", work, "noted")
    return order


async def human(ctx: Any) -> str:
    draft = await ctx.step("draft", work, "draft")
    answer = await ctx.interrupt({"draft": draft}, name="approve")
    if not answer["ok"]:
        return "rejected"
    await ctx.step("publish", work, "publish")
    stars = await ctx.interrupt("how many stars?", name="stars")
    return f"published, {stars} stars"


async def signals(ctx: Any, count: int) -> list[Any]:
    got = []
    for number in range(count):
        got.append(await ctx.wait_for_signal("item"))
        if number % 3 == 0:
            got.append(await ctx.step("handle", work, f"h{number}"))
    try:
        await ctx.wait_for_signal("more", timeout=100.0)
    except TimeoutError:
        got.append("no more")
    return got


async def cancelled(ctx: Any) -> str:
    for number in range(10):
        await ctx.step("slow", work, f"s{number}", 1.0)
    return "too late"


async def saga(ctx: Any) -> list[str]:
    undo: list[str] = []
    try:
        for name in ("flight", "hotel"):
            await ctx.step(f"book-{name}", work, name, 0.5)
            undo.append(name)
        await ctx.once("charge", work, "card", 0.2)
        undo.append("card")
        await ctx.step("ship", refuse)
    except OutcomeUnknown:
        undo.append("card?")
    except ValueError:
        undo.append("refused")
    return [await ctx.step(f"undo-{name.rstrip('?')}", work, f"un-{name}") for name in undo[::-1]]


def refuse() -> None:
    raise ValueError("out of stock")


async def chain(ctx: Any, left: int) -> str:
    await ctx.step("link", work, f"link{left}")
    if left:
        await ctx.continue_as_new(left - 1)
    return "chained"


async def failing(ctx: Any) -> None:
    await ctx.step("fine", work, "fine")
    await ctx.step("broken", refuse)


UNDONE = ["un-refused", "un-card", "un-hotel", "un-flight"]


def any_order(outcome: Outcome) -> bool:
    """Who is first depends on what is slow; that a replay agrees is checked by itself."""
    return outcome.status == "complete" and sorted(outcome.output) == ["r1", "r2", "r3"]


def slept(outcome: Outcome) -> bool:
    """How long it seemed depends on a worker's clock, which a fault may set."""
    return outcome.status == "complete" and str(outcome.output).startswith("slept ")


def rendered(outcome: Outcome) -> bool:
    """A charge whose outcome is unknown is undone as such, and nothing else changes."""
    return outcome == Outcome("complete", ["un-card?", "un-hotel", "un-flight"])


@dataclass(frozen=True)
class Workload:
    """A scenario, where it comes to without faults, and what else is right under faults."""

    scenario: Scenario
    usual: Outcome
    allowed: Callable[[Outcome], bool] | None = None


def workload(body: Any, *args: Any, usual: Any, allowed: Any = None, **world: Any) -> Workload:
    outcome = usual if isinstance(usual, Outcome) else Outcome("complete", usual)
    return Workload(Scenario(body=body, args=args, name=body.__name__, **world), outcome, allowed)


HANDLED = [{"n": 0}, "h0", {"n": 1}, {"n": 2}, {"n": 3}, "h3", {"n": 4}, {"n": 5}, {"n": 6}]
HANDLED += ["h6", {"n": 7}, {"n": 8}, "no more"]
ITEMS = [("item", {"n": number}) for number in range(9)]

WORKLOADS: dict[str, Workload] = {
    one.scenario.name: one
    for one in (
        workload(linear, 10, usual=[f"n{number}" for number in range(10)]),
        workload(fan_out, 20, usual=[f"f{number}" for number in range(20)]),
        workload(nested, usual="a-1+a-2 ['deep-1+deep-2', 'leaf']"),
        workload(retrying, usual=["there", "never", "after"]),
        workload(timers, usual="slept 4 days", allowed=slept, patience=30 * DAY),
        workload(race, usual=["r1", "r2", "r3"], allowed=any_order),
        workload(human, usual="published, 5 stars", answers={"approve": {"ok": True}, "stars": 5}),
        workload(signals, 9, usual=HANDLED, signals=ITEMS, signal_every=0.3),
        workload(cancelled, usual=Outcome("cancelled", code="cancelled"), cancel_at=3.5),
        workload(saga, usual=UNDONE, allowed=rendered),
        workload(chain, 3, usual="chained"),
        workload(failing, usual=Outcome("error", code="internal")),
    )
}

LONG = workload(linear, 150, usual=[f"n{number}" for number in range(150)])
"""A long journal: too long for a crash at each of its writes in a test."""
