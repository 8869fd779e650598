"""The laws of listings: newest first, page by page, nothing twice and nothing left out."""

from __future__ import annotations

from typing import Final

from pyrula_core.model import RunKey, RunKind, RunStatus
from pyrula_core.ports import Create, ListRuns, Patch, Post, RunPage
from pyrula_core.testing.laws import Bench, LawBook, body, require, require_equal

__all__ = ["BOOK"]

BOOK: Final = LawBook()


def ids(page: RunPage) -> list[str]:
    """Return the run ids of a page."""
    return [row.key.run_id for row in page.rows]


@BOOK.check("list", "Pages hold every run once, newest first, and the last one has no cursor.")
async def runs_are_listed_newest_first(bench: Bench) -> None:
    for number in range(7):
        await bench.create(f"r{number}")
        bench.clock.advance(number % 2)
    found: list[str] = []
    cursor = None
    for pages in range(1, 10):
        page = await bench.ask(ListRuns(limit=3, cursor=cursor))
        require(len(page.rows) <= 3, "a page has no more rows than were asked for")
        found += ids(page)
        cursor = page.cursor
        if cursor is None:
            break
        await bench.create(f"newer{pages}")
    require_equal(found, [f"r{n}" for n in reversed(range(7))], why="the runs")
    require_equal((await bench.ask(ListRuns(name="absent"))), RunPage(()), why="of no name")


@BOOK.check(
    "list", "A page has at most 1,000 rows, whatever is asked for; a full last page has no cursor."
)
async def a_page_is_bounded(bench: Bench) -> None:
    keys = [RunKey("wf", f"r{number}") for number in range(1002)]
    creations = [Create(key, RunKind.WORKFLOW, "1", "p", (body("x"),)) for key in keys]
    for future in [bench.start(op) for op in creations]:
        future.result(timeout=60)
    page = await bench.ask(ListRuns(limit=5000))
    require_equal(len(page.rows), 1000, why="rows")
    rest = await bench.ask(ListRuns(limit=2, cursor=page.cursor))
    require_equal((ids(rest), rest.cursor), (["r1", "r0"], None), why="the rest")


@BOOK.check(
    "list",
    "A listing is narrowed by name, status, error code, time, partition and parent, all at once.",
)
async def runs_are_listed_by_what_they_are(bench: Bench) -> None:
    start = bench.clock.time()
    await bench.create("a", partition="one")
    bench.clock.advance(10)
    await bench.create("b", name="other")
    bench.clock.advance(10)
    child = RunKey("wf", "c")
    await bench.ask(Create(child, RunKind.WORKFLOW, "1", "p", (body("x"),), parent="wf/a"))
    row = await bench.claim(child)
    await bench.append(row, "end", patch=Patch(RunStatus.ERROR, error_code="e", user_code="u"))
    asked = [
        (ListRuns(name="wf"), ["c", "a"]),
        (ListRuns(statuses=frozenset({RunStatus.QUEUED})), ["b", "a"]),
        (ListRuns(statuses=frozenset({RunStatus.QUEUED, RunStatus.ERROR})), ["c", "b", "a"]),
        (ListRuns(error_code="e"), ["c"]),
        (ListRuns(created_after=start), ["c", "b"]),
        (ListRuns(created_before=start + 20), ["b", "a"]),
        (ListRuns(partition="one"), ["a"]),
        (ListRuns(partition="absent"), []),
        (ListRuns(parent="wf/a"), ["c"]),
        (ListRuns(name="wf", partition="p", statuses=frozenset({RunStatus.ERROR})), ["c"]),
        (ListRuns(name="wf", partition="one", parent="wf/a"), []),
    ]
    for op, expected in asked:
        require_equal(ids(await bench.ask(op)), expected, why=repr(op))


@BOOK.check(
    "list",
    "A run that waits with its pause flag set is listed as paused, a running one as running.",
)
async def paused_runs_are_listed_as_paused(bench: Bench) -> None:
    queued = await bench.create("queued")
    waiting = await bench.running("waiting")
    await bench.append(waiting, patch=Patch(status=RunStatus.WAITING, release=True))
    running = await bench.running("running")
    for key in (queued, waiting.key, running.key):
        await bench.ask(Post(key, (), pause=True))
    paused = await bench.ask(ListRuns(statuses=frozenset({RunStatus.PAUSED})))
    require_equal(ids(paused), ["waiting", "queued"], why="paused")
    shown = await bench.ask(ListRuns(statuses=frozenset({RunStatus.QUEUED, RunStatus.WAITING})))
    require_equal(ids(shown), [], why="queued or waiting")
    busy = await bench.ask(ListRuns(statuses=frozenset({RunStatus.RUNNING})))
    require_equal(ids(busy), ["running"], why="running")


@BOOK.check("L8", "A listing holds no run of another namespace.")
async def listings_stay_in_their_namespace(bench: Bench) -> None:
    await bench.create("mine")
    other = bench.open(namespace="other")
    require_equal(await other.call(ListRuns()), RunPage(()), why="the other namespace")
    require_equal(ids(await bench.ask(ListRuns())), ["mine"], why="this one")
