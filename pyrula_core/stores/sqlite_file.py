"""Opens store files: creates ours, refuses everything else untouched, and names what goes wrong.

Owns the pragmas, the file's identity and the translation of SQLite's errors. Must never change a
byte of a file before it is known to be ours.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from pyrula_core.errors import (
    JournalError,
    JournalTooNew,
    NotAPyrulaStore,
    StoreError,
    StoreUnavailable,
    StoreUrlError,
)
from pyrula_core.model import Durability
from pyrula_core.stores.sqlite_queries import SCHEMA

__all__ = [
    "APPLICATION_ID",
    "CAUGHT",
    "SCHEMA_VERSION",
    "busy_ms_max",
    "check_library",
    "connect",
    "drop",
    "prepare",
    "read_durability",
    "store_error",
]

APPLICATION_ID: Final = int.from_bytes(b"PYRU", "big")
SCHEMA_VERSION: Final = 1
busy_ms_max: Final = 30_000
# After a burst the write-ahead log is cut back to this.
wal_bytes_kept: Final = 64 * 1024 * 1024

# Before 3.51.3 two connections that write and checkpoint could reset the log under each other.
LIBRARY_MIN: Final = (3, 51, 3)
SYNCHRONOUS: Final = {Durability.MACHINE: "FULL", Durability.PROCESS: "NORMAL"}
SYNCHRONOUS_FULL: Final = 2
TABLES: Final = frozenset({"namespace", "partition", "run", "event", "guard", "record"})

CORRUPT: Final = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, UnicodeDecodeError)
CAUGHT: Final = (apsw.Error, UnicodeDecodeError)
CORRUPT_HINT: Final = "Stop writing to the file and restore it from a backup"
RETRY_HINT: Final = (
    "Whether the write was applied is not known: read the run again before repeating it"
)


def check_library(version: str) -> None:
    """Raise StoreUnavailable when SQLite is one that can corrupt a file with two writers."""
    if tuple(int(part) for part in version.split(".")[:3]) < LIBRARY_MIN:
        raise StoreUnavailable(
            f"SQLite {version} can corrupt a file that two connections write",
            hint="Install an apsw that bundles SQLite 3.51.3 or later",
        )


def prepare(path: Path) -> None:
    """Make sure that ``path`` is a store file, creating it (mode 0600) when there is none.

    Raises NotAPyrulaStore or JournalTooNew, without having changed a byte, for a file that is not
    ours, and StoreUrlError for a path where no file can be.
    """
    check_library(apsw.sqlite_lib_version())
    if not path.parent.is_dir():
        raise StoreUrlError(
            f"the directory {str(path.parent)!r} of the store file does not exist",
            hint="Create it first, or name another path in the store URL",
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreUrlError(f"the store file {str(path)!r} cannot be created: {error}") from None
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise StoreUrlError(f"{str(path)!r} is not a regular file")
    if found.st_size > 0:
        check_identity(path)


def check_identity(path: Path) -> None:
    """Raise unless the file says that it is ours and not from a later version.

    It is read as an immutable file, so that no lock, log or journal is made beside it. It is not
    read with ``open``: closing a file drops every lock this process holds on it.
    """
    uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(uri, flags=flags)
        try:
            application = db.pragma("application_id")
            version = db.pragma("user_version")
        finally:
            db.close()
    except apsw.NotADBError:
        raise not_ours(path, "it is not an SQLite database") from None
    except apsw.Error as error:
        raise store_error(error) from error
    judge_identity(path, application=application, version=version)


def judge_identity(path: Path, *, application: object, version: object) -> None:
    """Raise unless a file's identity is ours and its version one we can read."""
    if application != APPLICATION_ID:
        raise not_ours(path, "it is a database of another application")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise JournalTooNew(
            f"the store {str(path)!r} has schema version {version}, "
            f"this library reads version {SCHEMA_VERSION}",
            hint="Upgrade pyrula; the file was left untouched",
        )


def not_ours(path: Path, why: str) -> NotAPyrulaStore:
    """Return the error for a file that holds something else."""
    return NotAPyrulaStore(
        f"{str(path)!r} is not a pyrula store: {why}",
        hint="It was not touched; name another path in the store URL",
    )


def connect(path: Path, durability: Durability, *, write: bool) -> apsw.Connection:
    """Return a connection to a prepared file, creating the tables of an empty one."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(busy_ms_max)
        # Without the stability guarantee SQLite plans a statement anew whenever it is bound to
        # other values, which costs several times what our statements take to run.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.pragma("trusted_schema", "OFF")
        db.pragma("foreign_keys", "ON")
        if write:
            open_for_writing(db, path, durability)
        else:
            db.pragma("query_only", "ON")
    except BaseException:
        drop(db)
        raise
    return db


def open_for_writing(db: apsw.Connection, path: Path, durability: Durability) -> None:
    """Set up the connection that writes: tables, write-ahead log, durability."""
    # The tables are made before the log is switched on, so that the file's header says whose it
    # is from the first committed byte on.
    db.pragma("synchronous", "FULL")
    if db.pragma("application_id") == 0:
        create_tables(db, path)
    application, version = db.pragma("application_id"), db.pragma("user_version")
    judge_identity(path, application=application, version=version)
    if TABLES - table_names(db):
        raise not_ours(path, "its tables are missing")
    if str(db.pragma("journal_mode", "wal")).lower() != "wal":
        raise StoreUnavailable(
            f"the file system of {str(path)!r} has no shared memory, which SQLite's log needs",
            hint="Keep the store file on a local disk",
        )
    db.pragma("journal_size_limit", wal_bytes_kept)
    db.pragma("synchronous", SYNCHRONOUS[durability])


def create_tables(db: apsw.Connection, path: Path) -> None:
    """Create the tables of an empty file in one transaction; another process may come first."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if db.pragma("application_id") == 0:
            check_empty(db, path)
            db.execute(SCHEMA)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", SCHEMA_VERSION)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def check_empty(db: apsw.Connection, path: Path) -> None:
    """Raise NotAPyrulaStore for a file that holds anything."""
    if table_names(db):
        raise not_ours(path, "it holds other tables")


def table_names(db: apsw.Connection) -> frozenset[str]:
    """Return the names of a file's tables."""
    return frozenset(
        str(name) for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    )


def read_durability(db: apsw.Connection) -> Durability:
    """Return what an acknowledged write of this connection survives, as SQLite tells it."""
    full = int(str(db.pragma("synchronous"))) >= SYNCHRONOUS_FULL
    return Durability.MACHINE if full else Durability.PROCESS


def drop(db: apsw.Connection) -> None:
    """Close a connection without a last checkpoint: its state may be unknown."""
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.close(force=True)
    except apsw.Error:
        pass  # Nothing is written through it any more; a leaked handle is the lesser evil.


def store_error(error: BaseException) -> BaseException:
    """Return what a caller is told for an error of SQLite; other errors come back unchanged."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, CORRUPT):
        return JournalError(f"the store file is damaged: {error}", hint=CORRUPT_HINT)
    if isinstance(error, apsw.Error):
        kind = type(error).__name__
        return StoreUnavailable(f"SQLite did not answer ({kind}: {error})", hint=RETRY_HINT)
    return error
