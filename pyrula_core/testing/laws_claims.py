"""The laws of creating and claiming: one run per key, one winner, no run lost or starved."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from pyrula_core.model import RunKey, RunKind, RunRow, RunStatus
from pyrula_core.ports import (
    Claimed,
    ClaimResult,
    Create,
    Created,
    Exists,
    FindIdempotent,
    Head,
    NotClaimable,
    Occupied,
    Patch,
    Post,
    Store,
)
from pyrula_core.testing.laws import (
    Bench,
    LawBook,
    LawBroken,
    body,
    claim_of,
    require,
    require_equal,
)

__all__ = ["BOOK"]

BOOK: Final = LawBook()
ANY: Final = claim_of(None, serves=[("wf", "")])


def new_run(run_id: str, *, name: str = "wf", idempotency_key: str | None = None) -> Create:
    """Return the creation of a run."""
    key = RunKey(name, run_id)
    return Create(key, RunKind.AGENT, "1", "p", (body("created"),), idempotency_key)


def claimed(answer: ClaimResult) -> RunRow:
    """Return the row of a claim that must have succeeded."""
    if not isinstance(answer, Claimed):
        raise LawBroken(f"something is to be claimed, but the answer was {answer!r}")
    return answer.row


# --- create ---------------------------------------------------------------------------------------


@BOOK.check("L1", "A new run is queued, with its events, its partition and its parent.")
async def a_run_is_created_whole(bench: Bench) -> None:
    op = replace(new_run("r"), events=(body("one"), body("two")), parent="wf/parent")
    answer = await bench.ask(op)
    row = await bench.row(op.key)
    require_equal(answer, Created(row), why="the answer")
    now = bench.clock.time()
    expected = RunRow(
        op.key, RunKind.AGENT, "1", "p", RunStatus.QUEUED, 2, row.epoch, now, now, parent=op.parent
    )
    require_equal(row, expected, why="the row")
    require_equal(await bench.names(op.key), ["one", "two"], why="its events")


@BOOK.check("L1", "A run created with an owner is claimed at once, in the same transaction.")
async def a_run_can_be_created_claimed(bench: Bench) -> None:
    op = replace(new_run("r"), claim_owner="a", claim_ttl=10.0, claim_event=body("claimed"))
    await bench.ask(op)
    row = await bench.row(op.key)
    found = (row.status, row.owner, row.lease_until, row.seq)
    require_equal(found, (RunStatus.RUNNING, "a", bench.clock.time() + 10, 2), why="the row")
    require(row.epoch >= 1, "a claimed run has an epoch")
    require_equal(await bench.names(op.key), ["created", "claimed"], why="its events")
    require_equal(await bench.ask(ANY), NotClaimable(), why="another claim")
    bench.clock.advance(10)
    require_equal(claimed(await bench.ask(ANY)).epoch, row.epoch + 1, why="the next epoch")


@BOOK.check("L2", "Creating a run again answers the run that is there and changes nothing.")
async def a_run_is_created_once(bench: Bench) -> None:
    row = await bench.running()
    again = replace(new_run("r"), version="2", events=(body("x"), body("y")))
    require_equal(await bench.ask(again), Exists(row), why="the answer")
    require_equal(await bench.row(row.key), row, why="the row")
    require_equal(await bench.names(row.key), ["created", "claimed"], why="its events")


@BOOK.check("L2", "An exclusive run is not created while another of its partition is open.")
async def a_partition_can_have_one_open_run(bench: Bench) -> None:
    first = replace(new_run("one"), partition="thread", exclusive=True)
    await bench.ask(first)
    row = await bench.row(first.key)
    second = replace(new_run("two", name="other"), partition="thread", exclusive=True)
    require_equal(await bench.ask(second), Occupied(row), why="the second")
    require_equal(await bench.ask(Head(second.key)), None, why="the second run")
    require_equal(await bench.ask(first), Exists(row), why="the same run again")
    elsewhere = replace(new_run("three"), partition="another", exclusive=True)
    require(isinstance(await bench.ask(elsewhere), Created), "another partition is free")


@BOOK.check(
    "L2", "A second run with the same name and idempotency key is not created; another name's is."
)
async def an_idempotency_key_is_unique_per_name(bench: Bench) -> None:
    first = await bench.ask(new_run("one", idempotency_key="k"))
    row = await bench.row(RunKey("wf", "one"))
    require_equal(first, Created(row), why="the first")
    second = new_run("two", idempotency_key="k")
    require_equal(await bench.ask(second), Exists(row), why="the second")
    require_equal(await bench.ask(Head(second.key)), None, why="the second run")
    require_equal(await bench.ask(FindIdempotent("wf", "k")), row, why="found by its key")
    require_equal(await bench.ask(FindIdempotent("other", "k")), None, why="of another name")
    other = await bench.ask(new_run("one", name="other", idempotency_key="k"))
    require(isinstance(other, Created), f"another name's key is its own, not {other!r}")
    await bench.ask(new_run("three"))
    await bench.ask(new_run("four"))
    require(await bench.ask(Head(RunKey("wf", "four"))) is not None, "no key collides with none")


# --- L8: isolation --------------------------------------------------------------------------------


@BOOK.check("L8", "Runs of one namespace are absent from every other, under the same key too.")
async def namespaces_do_not_see_each_other(bench: Bench) -> None:
    other = bench.open(namespace="other")
    await bench.ask(new_run("r", idempotency_key="k"))
    key = RunKey("wf", "r")
    require_equal(await other.call(Head(key)), None, why="its row")
    require_equal(await other.call(FindIdempotent("wf", "k")), None, why="its idempotency key")
    require_equal(await other.call(ANY), NotClaimable(), why="a claim")
    mine = await other.call(replace(new_run("r", idempotency_key="k"), version="9"))
    require(isinstance(mine, Created), f"the same key is free there, not {mine!r}")
    require_equal((await bench.row(key)).version, "1", why="the first namespace's run")
    await other.call(claim_of(key))
    require_equal((await bench.row(key)).status, RunStatus.QUEUED, why="after a claim there")


@BOOK.check("L8", "Runs whose names and ids read alike when joined are different runs.")
async def runs_do_not_touch_each_other(bench: Bench) -> None:
    pairs = [("a", "b.c"), ("a.b", "c"), ("a", "b"), ("A", "b"), ("a-b", "c"), ("a", "b-c")]
    for number, (name, run_id) in enumerate(pairs):
        key = await bench.create(run_id, name=name)
        row = await bench.claim(key)
        await bench.append(row, *(f"e{count}" for count in range(number)))
    for number, (name, run_id) in enumerate(pairs):
        names = await bench.names(RunKey(name, run_id))
        require_equal(len(names), 2 + number, why=f"events of {name}/{run_id}")


# --- L10: claims ----------------------------------------------------------------------------------


def claim_all_at_once(stores: list[Store], count: int) -> list[ClaimResult]:
    """Let ``count`` threads claim from the stores at the same moment."""
    barrier = threading.Barrier(count)

    def attempt(number: int) -> ClaimResult:
        barrier.wait(timeout=30)
        op = replace(ANY, owner=f"owner-{number}")
        return stores[number % len(stores)].submit(op).result(timeout=60)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(attempt, range(count)))


@BOOK.check("L10", "Of many that claim at the same moment, each run is won by exactly one.")
async def a_claim_has_one_winner(bench: Bench) -> None:
    stores = [bench.store, bench.open()]
    for number in range(5):
        await bench.create(f"r{number}")
    answers = claim_all_at_once(stores, 8)
    rows = [answer.row for answer in answers if isinstance(answer, Claimed)]
    require_equal(sorted(row.key.run_id for row in rows), [f"r{n}" for n in range(5)], why="won")
    for row in rows:
        require_equal(await bench.row(row.key), row, why="the winner's row")
        require_equal(await bench.names(row.key), ["created", "claimed"], why="its events")


@BOOK.check("L10", "A run whose claimer died is claimed by another, and its journal says so first.")
async def a_lost_claimers_run_is_claimable_again(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    await bench.append(row, "one")
    bench.reopen()
    require_equal(await bench.ask(ANY), NotClaimable(), why="while the lease runs")
    bench.clock.advance(10)
    again = claimed(await bench.ask(replace(ANY, owner="b")))
    expected = (row.key, "b", row.epoch + 1, RunStatus.RUNNING, row.seq + 3)
    found = (again.key, again.owner, again.epoch, again.status, again.seq)
    require_equal(found, expected, why="the row")
    names = ["created", "claimed", "one", "orphaned", "claimed"]
    require_equal(await bench.names(row.key), names, why="its events")


@BOOK.check(
    "L10",
    "Runs are claimed in the order in which they became claimable, orphans and timers among them.",
)
async def the_longest_waiting_run_is_claimed_first(bench: Bench) -> None:
    await bench.running("orphan", ttl=2)
    timer = await bench.running("timer")
    due = bench.clock.time() + 4
    await bench.append(timer, patch=Patch(status=RunStatus.WAITING, release=True, wake_at=due))
    bench.clock.advance(1)
    await bench.create("first")
    bench.clock.advance(2)
    await bench.create("second")
    await bench.ask(Post(RunKey("wf", "first"), (body("signal"),)))
    bench.clock.advance(2)
    await bench.create("third")
    order = [claimed(await bench.ask(ANY)).key.run_id for _ in range(5)]
    require_equal(order, ["first", "orphan", "second", "timer", "third"], why="the order")
    require_equal(await bench.ask(ANY), NotClaimable(), why="afterwards")


@BOOK.check(
    "L10",
    "A claim takes only runs of the names and versions it serves; an empty version is every one.",
)
async def a_claim_takes_what_it_serves(bench: Bench) -> None:
    await bench.create("old", version="1")
    await bench.create("new", version="2")
    await bench.create("alien", name="other", version="2")
    require_equal(await bench.ask(claim_of(None)), NotClaimable(), why="serving nothing")
    wrong = claim_of(None, serves=[("wf", "3"), ("other", "1")])
    require_equal(await bench.ask(wrong), NotClaimable(), why="serving other versions")
    row = claimed(await bench.ask(claim_of(None, serves=[("wf", "2"), ("other", "1")])))
    require_equal(row.key.run_id, "new", why="serving version 2")
    row = claimed(await bench.ask(claim_of(None, serves=[("other", "")])))
    require_equal(row.key.run_id, "alien", why="serving every version")
    require_equal(claimed(await bench.ask(ANY)).key.run_id, "old", why="serving the rest")


@BOOK.check(
    "L10", "A queued run is not claimed while paused, unless its cancellation was asked for."
)
async def a_paused_run_is_not_claimed(bench: Bench) -> None:
    key = await bench.create()
    await bench.ask(Post(key, (), pause=True))
    require_equal(await bench.ask(ANY), NotClaimable(), why="by any, paused")
    answer = await bench.ask(claim_of(key))
    require_equal(answer, NotClaimable(await bench.row(key)), why="by its key, paused")
    await bench.ask(Post(key, (), pause=False))
    row = claimed(await bench.ask(ANY))
    await bench.append(row, patch=Patch(status=RunStatus.QUEUED, release=True))
    await bench.ask(Post(key, (), pause=True, cancel=True))
    claimed(await bench.ask(ANY))


@BOOK.check(
    "L10", "A waiting run is claimed when its time has come; without one, or interrupted, never."
)
async def a_waiting_run_is_claimed_when_its_time_comes(bench: Bench) -> None:
    due = bench.clock.time() + 5
    timer = await bench.append(
        await bench.running("timer"), patch=Patch(RunStatus.WAITING, release=True, wake_at=due)
    )
    for status in (RunStatus.WAITING, RunStatus.INTERRUPTED):
        row = await bench.running(status.value)
        await bench.append(row, patch=Patch(status=status, release=True))
    bench.clock.advance(4)
    require_equal(await bench.ask(ANY), NotClaimable(), why="too early")
    require_equal(await bench.ask(claim_of(timer.key)), NotClaimable(timer), why="by its key")
    bench.clock.advance(1)
    row = claimed(await bench.ask(ANY))
    require_equal((row.key, row.wake_at), (timer.key, None), why="the claimed row")
    require_equal(await bench.names(row.key), ["created", "claimed", "claimed"], why="its events")
    bench.clock.advance(20)
    require_equal(await bench.ask(ANY), NotClaimable(), why="the others")


@BOOK.check("L10", "A run whose owner is known to be dead is claimed before its lease is over.")
async def a_dead_owners_run_is_claimed_at_once(bench: Bench) -> None:
    row = await bench.running()
    by_key = claim_of(row.key, owner="b")
    answer = await bench.ask(replace(by_key, dead_owner="somebody else"))
    require_equal(answer, NotClaimable(row), why="another is dead")
    again = claimed(await bench.ask(replace(by_key, dead_owner="a")))
    require_equal((again.owner, again.epoch), ("b", row.epoch + 1), why="the owner is dead")
    names = ["created", "claimed", "orphaned", "claimed"]
    require_equal(await bench.names(row.key), names, why="its events")
    ended = await bench.end(again)
    answer = await bench.ask(replace(by_key, dead_owner="b"))
    require_equal(answer, NotClaimable(ended), why="an ended run")


@BOOK.check("L10", "A claim of a run that does not exist answers NotClaimable without a row.")
async def a_claim_of_no_run_finds_nothing(bench: Bench) -> None:
    require_equal(await bench.ask(claim_of(RunKey("wf", "absent"))), NotClaimable(), why="")
