"""What is particular to the SQLite store: its file, its group commit, its errors, its kills."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import apsw
import pytest

from pyrula_core.codec import decode, encode
from pyrula_core.errors import (
    JournalError,
    JournalTooNew,
    NotAPyrulaStore,
    StoreUnavailable,
    StoreUrlError,
)
from pyrula_core.events import Event, EventType, Payload
from pyrula_core.model import Durability, RunKey, RunKind
from pyrula_core.ports import Append, Appended, Create, Head, Post, Posted, ReadEvents, WriteRecords
from pyrula_core.stores import open_store, sqlite_file
from pyrula_core.stores.sqlite import SqliteStore
from pyrula_core.stores.sqlite_writer import inline_commit_ms_max
from tests.core.store_child import KEY, body

ROOT = Path(__file__).resolve().parents[2]
EVENT = encode(Event(EventType.STEP_DONE, {"key": "pull#0"}, Payload("json/1", b'"x"'), at=1.5))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        yield store


def create(store: SqliteStore, key: RunKey = KEY) -> None:
    op = Create(key, RunKind.WORKFLOW, "1", "p", (EVENT,))
    store.submit(op).result(timeout=30)


def start(store: SqliteStore, key: RunKey = KEY) -> None:
    """Create a run that is claimed at once; its seq is then 2 and its epoch 1."""
    op = Create(
        key,
        RunKind.WORKFLOW,
        "1",
        "p",
        (EVENT,),
        claim_owner="a",
        claim_ttl=1e6,
        claim_event=EVENT,
    )
    store.submit(op).result(timeout=30)


def listing(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def names(store: SqliteStore) -> list[str]:
    frames = store.submit(ReadEvents(KEY)).result()
    assert [seq for seq, _ in frames] == list(range(1, len(frames) + 1))
    events = [decode(frame, key=KEY, seq=seq) for seq, frame in frames]
    return [str(event.data.get("name", event.data.get("key"))) for event in events]


# --- the file -------------------------------------------------------------------------------------


def test_a_new_file_is_ours_and_private(path: Path) -> None:
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (sqlite_file.APPLICATION_ID,)
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def foreign_text(path: Path) -> None:
    path.write_text("Dear diary, this file has nothing to do with databases at all.\n" * 20)


def foreign_header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 16)


def foreign_single_byte(path: Path) -> None:
    path.write_bytes(b"\n")


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE run (x)")
        db.execute("INSERT INTO run VALUES (1)")
    db.close()


def foreign_wal_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = wal")
        db.execute("CREATE TABLE run (x)")
    db.close()


def foreign_application(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id = 252006673")
        db.execute("CREATE TABLE a (x)")
    db.close()


@pytest.mark.parametrize(
    "make",
    [
        foreign_text,
        foreign_header,
        foreign_single_byte,
        foreign_database,
        foreign_wal_database,
        foreign_application,
    ],
)
def test_a_file_that_is_not_ours_is_not_touched(path: Path, make: object) -> None:
    make(path)
    before, beside = path.read_bytes(), listing(path.parent)
    with pytest.raises(NotAPyrulaStore, match="not touched"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert listing(path.parent) == beside


def test_a_file_of_a_later_version_is_not_touched(path: Path) -> None:
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    before, beside = path.read_bytes(), listing(path.parent)
    with pytest.raises(JournalTooNew, match="schema version 2"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert listing(path.parent) == beside


def test_a_file_of_ours_without_its_tables_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE event")
    db.close()
    with pytest.raises(NotAPyrulaStore, match="tables are missing"):
        SqliteStore(path)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with SqliteStore(path) as store:
        create(store)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUrlError, match="absent"):
        SqliteStore(tmp_path / "absent" / "store.db")


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUrlError, match="not a regular file"):
        SqliteStore(tmp_path)


def test_a_library_that_corrupts_files_is_refused() -> None:
    sqlite_file.check_library("3.51.3")
    sqlite_file.check_library("3.54.1")
    for version in ("3.40.1", "3.51.2"):
        with pytest.raises(StoreUnavailable, match=version):
            sqlite_file.check_library(version)


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


# --- damage ---------------------------------------------------------------------------------------


def test_every_flipped_byte_of_a_stored_frame_is_found(store: SqliteStore, path: Path) -> None:
    create(store)
    ((seq, frame),) = store.submit(ReadEvents(KEY)).result()
    other = apsw.Connection(str(path))
    for at in range(len(frame)):
        damaged = frame[:at] + bytes([frame[at] ^ 0x40]) + frame[at + 1 :]
        other.execute("UPDATE event SET frame = ?", (damaged,))
        ((_, found),) = store.submit(ReadEvents(KEY)).result()
        assert found == damaged
        with pytest.raises(JournalError):
            decode(found, key=KEY, seq=seq)
    other.close()


def test_a_damaged_row_is_reported(store: SqliteStore, path: Path) -> None:
    create(store)
    other = apsw.Connection(str(path))
    other.execute("UPDATE run SET status = 'qeued'")
    other.close()
    with pytest.raises(JournalError, match="qeued"):
        store.submit(Head(KEY)).result()


def test_damaged_pages_are_reported_and_never_read_as_something_else(path: Path) -> None:
    with SqliteStore(path) as store:
        start(store)
        for number in range(200):
            store.submit(Append(KEY, 1, 2 + number, (body(f"{number:04}"),))).result(timeout=30)
        expected = names(store)
    whole = path.read_bytes()
    for at in range(100, len(whole), 4096 + 1777):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            with SqliteStore(path) as store:
                found = names(store)
        except (JournalError, NotAPyrulaStore, StoreUnavailable):
            continue
        assert found == expected, f"byte {at}"


# --- other processes ------------------------------------------------------------------------------


def child(act: str, path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.core.store_child", act, str(path), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_one_journal(path: Path) -> None:
    with SqliteStore(path, durability=Durability.PROCESS) as store:
        create(store)
        children = [child("post", path, name, 150) for name in ("a", "b")]
        mine = [store.submit(Post(KEY, (body(f"c-{n}"),))) for n in range(150)]
        for future in mine:
            future.result(timeout=60)
        for process in children:
            process.communicate(timeout=60)
            assert process.returncode == 0
        found = names(store)[1:]
    assert len(found) == len(set(found)) == 450
    for name in "abc":
        assert [n for n in found if n.startswith(name)] == [f"{name}-{n}" for n in range(150)]


@pytest.mark.crash
def test_what_was_acknowledged_survives_every_kill(path: Path) -> None:
    with SqliteStore(path, durability=Durability.PROCESS) as store:
        start(store)
        store.submit(Post(KEY, ())).result(timeout=30)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE run SET lease_until = 0, ready_at = 0")
    db.close()
    acknowledged: list[str] = []
    for number in range(25):
        process = child("append", path, f"k{number}", 1_000_000)
        assert process.stdout is not None
        acknowledged += [process.stdout.readline().strip() for _ in range(1 + 7 * number % 23)]
        process.kill()
        acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait(timeout=30)
        process.stdout.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    with SqliteStore(path) as store:
        found = names(store)
    assert "" not in acknowledged
    assert len(acknowledged) >= 25
    assert set(acknowledged) <= set(found)
    assert len(found) - 2 == len(set(found[2:])), "no event is there twice"
