"""The laws of what comes from outside: posts, guards, controls, subscriptions, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NoReturn

from pyrula_core.model import Controls, RunKey, RunStatus
from pyrula_core.ports import (
    Appended,
    Conflict,
    Duplicate,
    Missing,
    NotClaimable,
    Patch,
    Post,
    Posted,
    Renew,
    Renewed,
)
from pyrula_core.testing.laws import (
    Bench,
    LawBook,
    LawBroken,
    append_of,
    body,
    claim_of,
    require,
    require_equal,
)

__all__ = ["BOOK"]

BOOK: Final = LawBook()


@BOOK.check("post", "A post adds its events at the end of a live run's journal, whoever owns it.")
async def a_post_needs_no_lease(bench: Bench) -> None:
    row = await bench.running()
    answer = await bench.ask(Post(row.key, (body("one"), body("two"))))
    require_equal(answer, Posted(row.seq + 2), why="the answer")
    require_equal(await bench.names(row.key), ["created", "claimed", "one", "two"], why="events")
    late = await bench.ask(append_of(row, "x"))
    require(isinstance(late, Conflict) and len(late.tail) == 2, f"answered {late!r}")
    require_equal(await bench.ask(Post(RunKey("wf", "absent"), (body("x"),))), Missing(), why="")


@BOOK.check(
    "post",
    "A second post with the same guard changes nothing, after a restart and after the end too.",
)
async def a_guard_counts_once(bench: Bench) -> None:
    row = await bench.running()
    post = Post(row.key, (body("one"), body("two")), pause=True, guard="g")
    require_equal(await bench.ask(post), Posted(row.seq + 2), why="the first")
    await bench.ask(Post(row.key, (body("three"),), pause=False, guard="other"))
    before = await bench.row(row.key)
    bench.reopen()
    require_equal(await bench.ask(post), Duplicate(row.seq + 2), why="the second")
    require_equal(await bench.row(row.key), before, why="the row")
    require_equal(len(await bench.names(row.key)), before.seq, why="events")
    await bench.end(before)
    require_equal(await bench.ask(post), Duplicate(row.seq + 2), why="after the end")


@BOOK.check("post", "The same guard on another run is another guard.")
async def a_guard_is_its_runs_own(bench: Bench) -> None:
    for run_id in ("one", "two"):
        row = await bench.running(run_id)
        answer = await bench.ask(Post(row.key, (body("x"),), guard="g"))
        require_equal(answer, Posted(row.seq + 1), why=f"run {run_id}")


@BOOK.check(
    "post", "A post makes a waiting or interrupted run claimable when it is to wake, else not."
)
async def a_post_can_wake(bench: Bench) -> None:
    for status in (RunStatus.WAITING, RunStatus.INTERRUPTED):
        row = await bench.running(status.value)
        later = bench.clock.time() + 1000
        patch = Patch(status=status, release=True, wake_at=later)
        await bench.append(row, patch=patch)
        await bench.ask(Post(row.key, (body("quiet"),)))
        asleep = await bench.row(row.key)
        require_equal(asleep.status, status, why="after a post that does not wake")
        require_equal(await bench.ask(claim_of(row.key)), NotClaimable(asleep), why="a claim")
        await bench.ask(Post(row.key, (body("loud"),), wake=True))
        awake = await bench.row(row.key)
        require_equal((awake.status, awake.wake_at), (RunStatus.QUEUED, None), why="after waking")
        await bench.claim(row.key)


@BOOK.check(
    "post", "A post that wakes leaves the status, the owner and the lease of a running run alone."
)
async def waking_a_busy_run_changes_nothing(bench: Bench) -> None:
    row = await bench.running()
    await bench.ask(Post(row.key, (body("signal"),), wake=True))
    after = await bench.row(row.key)
    found = (after.status, after.owner, after.epoch, after.lease_until)
    require_equal(found, (row.status, row.owner, row.epoch, row.lease_until), why="the row")


@BOOK.check(
    "post", "Controls are set, cleared and left alone; appends, conflicts and renewals tell them."
)
async def controls_come_with_every_answer(bench: Bench) -> None:
    row = await bench.running()
    steps = [
        (Post(row.key, (body("1"),), pause=True), Controls(pause=True)),
        (Post(row.key, (body("2"),), cancel=True), Controls(pause=True, cancel=True)),
        (Post(row.key, (body("3"),), pause=False), Controls(cancel=True)),
        (Post(row.key, (body("4"),)), Controls(cancel=True)),
        (Post(row.key, (body("5"),), cancel=False), Controls()),
    ]
    for post, controls in steps:
        before = await bench.row(row.key)
        await bench.ask(post)
        conflict = await bench.ask(append_of(before, "x"))
        require_equal(getattr(conflict, "controls", None), controls, why="a conflict")
        now = await bench.row(row.key)
        require_equal(now.controls, controls, why="the row")
        appended = await bench.ask(append_of(now, "y"))
        require_equal(appended, Appended(now.seq + 1, controls), why="an append")
        renewed = await bench.ask(Renew(row.key, row.epoch, "a", 30))
        require_equal(renewed, Renewed(controls), why="a renewal")


# --- L9 and L11 -----------------------------------------------------------------------------------


@BOOK.check("L9", "An operation whose caller is cancelled is done all the same, once.")
async def a_cancelled_caller_cancels_nothing(bench: Bench) -> None:
    row = await bench.running()
    calls = [
        asyncio.ensure_future(bench.ask(Post(row.key, (body(f"e{n}"),), guard=f"g{n}")))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    for call in calls[1::2]:
        call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*calls, return_exceptions=True)
    for number in range(20):
        await bench.ask(Post(row.key, (body(f"e{number}"),), guard=f"g{number}"))
    names = await bench.names(row.key)
    require_equal(sorted(names[2:]), sorted(f"e{n}" for n in range(20)), why="events")


@BOOK.check(
    "L11", "A subscriber of a run, and one of every run, hears of its changes until it leaves."
)
async def subscribers_are_told(bench: Bench) -> None:
    row = await bench.running()
    heard: list[str] = []
    leave_one = bench.store.subscribe(row.key, lambda: heard.append("one"))
    leave_all = bench.store.subscribe(None, lambda: heard.append("all"))
    for op in (append_of(row, "x"), Post(row.key, (body("y"),))):
        heard.clear()
        await bench.ask(op)
        await until(lambda: {"one", "all"} <= set(heard))
    await bench.create("another")
    leave_one()
    leave_all()
    heard.clear()
    await bench.ask(Post(row.key, (body("z"),)))
    require_equal(heard, [], why="heard after leaving")


@BOOK.check("L11", "A subscriber that raises spoils neither the write nor what others hear.")
async def a_failing_subscriber_harms_nobody(bench: Bench) -> None:

    def fail() -> NoReturn:
        raise RuntimeError("a subscriber failed on purpose")

    row = await bench.running()
    heard: list[str] = []
    bench.store.subscribe(row.key, fail)
    bench.store.subscribe(row.key, lambda: heard.append("one"))
    require(isinstance(await bench.ask(append_of(row, "x")), Appended), "the write is answered")
    await until(lambda: bool(heard))


async def until(condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
    """Wait for a hint to arrive; raises LawBroken when it does not."""
    step = 0.001
    for _ in range(int(seconds / step)):
        if condition():
            return
        await asyncio.sleep(step)
    raise LawBroken("a subscriber was not told")
