"""The file of the SQLite store: whose it is, and what damage to it looks like."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from pyrula_core.codec import decode
from pyrula_core.errors import (
    JournalError,
    JournalTooNew,
    NotAPyrulaStore,
    StoreUnavailable,
    StoreUrlError,
)
from pyrula_core.ports import Append, Head, ReadEvents
from pyrula_core.stores import sqlite_file
from pyrula_core.stores.sqlite import SqliteStore
from tests.core.store_cases import create, listing, names, start
from tests.core.store_child import KEY, body


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        yield store


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
