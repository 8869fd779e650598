"""What is particular to the SQLite store: sharing, group commit, locks and failed commits."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import apsw
import pytest

from pyrula_core.errors import (
    StoreUnavailable,
    StoreUrlError,
)
from pyrula_core.model import Durability, RunKey, RunKind
from pyrula_core.ports import Append, Appended, Create, Head, Post, Posted, WriteRecords
from pyrula_core.stores import open_store
from pyrula_core.stores.sqlite import SqliteStore
from pyrula_core.stores.sqlite_writer import inline_commit_ms_max
from tests.core.store_cases import EVENT, create, listing, names, start
from tests.core.store_child import KEY, body


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        yield store


# --- sharing and durability -----------------------------------------------------------------------


def test_stores_on_one_file_share_a_writer(path: Path, tmp_path: Path) -> None:
    first = SqliteStore(path)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    second = SqliteStore(link, namespace="other")
    assert first.shared is second.shared
    first.close()
    first.close()
    create(second)
    second.close()
    assert listing(tmp_path) == ["link.db", "store.db"], "the log is gone when closed"


def test_a_closed_store_says_so(path: Path) -> None:
    with SqliteStore(path) as first, SqliteStore(path) as second:
        create(first)
        second.close()
        for op in (Head(KEY), Post(KEY, (EVENT,))):
            with pytest.raises(StoreUnavailable, match="closed"):
                second.submit(op).result()


def test_durability_is_read_from_the_connection(path: Path, tmp_path: Path) -> None:
    with SqliteStore(path) as store:
        assert store.durability is Durability.MACHINE
        with pytest.raises(StoreUrlError, match="durability"):
            SqliteStore(path, durability=Durability.PROCESS)
    url = f"sqlite:///{tmp_path}/other.db?durability=process"
    with open_store(url) as other:
        assert other.durability is Durability.PROCESS
        with open_store(other.url) as again:
            assert again.durability is Durability.PROCESS


def test_closing_finishes_what_was_submitted(path: Path) -> None:
    store = SqliteStore(path)
    create(store)
    futures = [store.submit(Post(KEY, (body(str(number)),))) for number in range(50)]
    store.close()
    assert [future.result(timeout=0) for future in futures] == [Posted(n + 2) for n in range(50)]


def test_a_submitted_write_cannot_be_cancelled(store: SqliteStore) -> None:
    create(store)
    future = store.submit(Post(KEY, (body("x"),)))
    assert not future.cancel()
    assert future.result(timeout=30) == Posted(2)


# --- group commit ---------------------------------------------------------------------------------


def test_waiting_writes_share_a_commit(store: SqliteStore) -> None:
    create(store)
    writer = store.shared.writer
    commits, operations = writer.commits, writer.operations
    held = threading.Event()
    futures = [store.submit(Post(RunKey("wf", "absent"), (EVENT,), guard="first"))]
    with writer._turn:  # Stands for a commit that takes its time.
        for number in range(40):
            key = RunKey("wf", f"r{number}")
            futures.append(store.submit(Create(key, RunKind.WORKFLOW, "1", "p", (EVENT,))))
        held.set()
    for future in futures:
        future.result(timeout=30)
    assert writer.operations - operations == 41
    assert writer.commits - commits <= 3


async def test_many_runs_at_once_share_commits(store: SqliteStore) -> None:
    keys = [RunKey("wf", f"r{number}") for number in range(30)]
    for key in keys:
        start(store, key)
    writer = store.shared.writer
    commits, operations = writer.commits, writer.operations

    async def step(key: RunKey) -> None:
        for number in range(10):
            answer = await store.call(Append(key, 1, 2 + number, (EVENT,)))
            assert answer == Appended(3 + number, answer.controls)

    await asyncio.gather(*map(step, keys))
    assert writer.operations - operations == 300
    assert writer.commits - commits <= 150


async def test_a_run_that_is_alone_needs_no_other_thread(store: SqliteStore) -> None:
    start(store)
    store.shared.writer._commit_ms = 0.0
    await store.call(Append(KEY, 1, 2, (EVENT,)))
    for number in range(20):
        # Not the disk of a busy test machine, but whether the thread is asked, is the question.
        store.shared.writer._commit_ms = min(store.shared.writer._commit_ms, inline_commit_ms_max)
        assert store.at_once(Append(KEY, 1, 3 + number, (EVENT,))) is not None


async def test_a_slow_disk_does_not_keep_an_event_loop_waiting(store: SqliteStore) -> None:
    start(store)
    await store.call(Append(KEY, 1, 2, (EVENT,)))
    store.shared.writer._commit_ms = inline_commit_ms_max * 2
    assert store.at_once(Append(KEY, 1, 3, (EVENT,))) is None
    assert (await store.call(Append(KEY, 1, 3, (EVENT,)))).seq == 4


def test_one_bad_operation_fails_alone(store: SqliteStore) -> None:
    create(store)
    good = [Post(KEY, (body(str(number)),)) for number in range(5)]
    bad = Post(KEY, ("no bytes",))  # type: ignore[arg-type]
    futures: list[Future[object]] = []
    store.submit(WriteRecords("p", ())).result(timeout=30)
    with store.shared.writer._turn:
        futures += [store.submit(op) for op in (*good[:2], bad, *good[2:])]
    outcomes = [future.exception(timeout=30) for future in futures]
    assert [type(outcome) for outcome in outcomes].count(TypeError) == 1
    assert outcomes[2] is not None
    assert names(store)[1:] == [str(number) for number in range(5)]


# --- errors ---------------------------------------------------------------------------------------


def test_an_unknown_commit_is_unavailable_and_then_read_back(store: SqliteStore) -> None:
    start(store)
    writer = store.shared.writer
    failing = writer._db

    def fail() -> bool:
        raise apsw.IOError("the disk is gone")

    failing.set_commit_hook(fail)
    op = Append(KEY, 1, 2, (body("one"),))
    with pytest.raises(StoreUnavailable, match="IOError"):
        store.submit(op).result(timeout=30)
    assert writer._db is not failing, "a connection whose commit failed is never used again"
    assert store.submit(op).result(timeout=30).seq == 3
    assert names(store)[2:] == ["one"]


def test_a_lock_held_elsewhere_is_waited_for(store: SqliteStore, path: Path) -> None:
    start(store)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    future = store.submit(Append(KEY, 1, 2, (body("one"),)))
    assert not future.done()
    other.execute("COMMIT")
    other.close()
    assert future.result(timeout=30).seq == 3


def test_a_lock_held_for_too_long_is_unavailable(store: SqliteStore, path: Path) -> None:
    start(store)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    store.shared.writer._db.set_busy_handler(None)
    with pytest.raises(StoreUnavailable, match="BusyError"):
        store.submit(Append(KEY, 1, 2, (body("one"),))).result(timeout=30)
    other.execute("COMMIT")
    other.close()
    assert names(store)[2:] == []


def test_a_store_is_refused_on_the_far_side_of_a_fork(store: SqliteStore, path: Path) -> None:
    create(store)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - seen by the parent only
        outcome = b""
        for attempt in (lambda: store.submit(Head(KEY)).result(), lambda: SqliteStore(path)):
            try:
                attempt()
            except StoreUnavailable as error:
                outcome += b"refused " if b"fork" in str(error).encode() else b"? "
        store.close()
        os.write(writing, outcome)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"refused refused "
    assert os.waitpid(child, 0)[1] == 0
    assert store.submit(Head(KEY)).result() is not None
