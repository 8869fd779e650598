"""What all stores on one file share within a process: one writer, the readers, the subscribers.

Owns the list of open files and what a fork does to it. Must never outlive its last user.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from pyrula_core.errors import StoreUnavailable, StoreUrlError
from pyrula_core.model import Durability
from pyrula_core.stores.front import Listeners
from pyrula_core.stores.sqlite_file import connect, drop, prepare, read_durability
from pyrula_core.stores.sqlite_writer import SqliteWriter

__all__ = ["SharedFile", "acquire", "forked", "release"]

Identity = tuple[int, int]

FORK_HINT: Final = (
    "SQLite's locks do not survive a fork: start processes with the 'spawn' method, or open the "
    "store after forking only"
)


class SharedFile:
    """An open store file: its writer, idle reading connections and subscribers by namespace."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self.path = path
        self.users = 0
        self.forked = False
        self.closed = False
        self.listeners: dict[str, Listeners] = {}
        self._readers: list[apsw.Connection] = []
        self._wanted = durability
        self.durability = durability
        self.writer = SqliteWriter(self._connect_writer)

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Lend a reading connection to one caller at a time."""
        try:
            db = self._readers.pop()
        except IndexError:
            db = connect(self.path, self._wanted, write=False)
        try:
            yield db
        except apsw.Error:
            drop(db)
            raise
        except BaseException:
            self._give_back(db)
            raise
        self._give_back(db)

    def close(self) -> None:
        """Finish what was submitted and close every connection, the writer's last."""
        self.closed = True
        while self._readers:
            self._readers.pop().close()
        self.writer.close()

    def _give_back(self, db: apsw.Connection) -> None:
        if self.closed:
            db.close()
        else:
            self._readers.append(db)

    def _connect_writer(self) -> apsw.Connection:
        db = connect(self.path, self._wanted, write=True)
        self.durability = read_durability(db)
        return db


class OpenFiles:
    """The files open in this process, and those its parent had open when it was forked.

    The latter are kept alive: closing them would run SQLite on state that belongs to the parent.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.shared: dict[Identity, SharedFile] = {}
        self.forked: dict[Identity, SharedFile] = {}

    def abandon(self) -> None:
        """Give up, in a forked child, what belongs to the parent."""
        self.lock = threading.Lock()  # The old one may be held by a thread that is not here.
        for shared in self.shared.values():
            shared.forked = True
        self.forked |= self.shared
        self.shared = {}


files: Final = OpenFiles()
os.register_at_fork(after_in_child=files.abandon)


def acquire(path: Path, durability: Durability) -> SharedFile:
    """Return the shared file of ``path``, opening it for its first user."""
    with files.lock:
        found = identify(path)
        if found in files.forked:
            raise forked(path)
        shared = files.shared.get(found) if found else None
        if shared is None:
            shared = open_file(path, durability)
        elif shared.durability is not durability:
            raise StoreUrlError(
                f"{str(path)!r} is open in this process with durability "
                f"{shared.durability.value!r}, not {durability.value!r}",
                hint="Use the same durability for every store on one file",
            )
        shared.users += 1
        return shared


def open_file(path: Path, durability: Durability) -> SharedFile:
    """Open a file that is not open in this process."""
    prepare(path)
    shared = SharedFile(path, durability)
    found = path.stat()
    files.shared[found.st_dev, found.st_ino] = shared
    return shared


def release(shared: SharedFile) -> None:
    """Give a shared file back; its last user closes it."""
    if shared.forked:
        return
    with files.lock:
        shared.users -= 1
        if shared.users:
            return
        files.shared = {key: value for key, value in files.shared.items() if value is not shared}
        shared.close()


def identify(path: Path) -> Identity | None:
    """Return what makes a file the same under every name it has, None when it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def forked(path: Path) -> StoreUnavailable:
    """Return the error for using a store on the far side of a fork."""
    return StoreUnavailable(
        f"the store {str(path)!r} was opened before this process was forked", hint=FORK_HINT
    )
