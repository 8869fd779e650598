"""The store that is one SQLite file: the default, embedded and durable.

Owns nothing but the way of an operation to a reading connection or to the file's writer; the file
itself is shared by all stores of this process that are open on it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import apsw

from pyrula_core.clock import SystemClock
from pyrula_core.model import Durability
from pyrula_core.ports import Append, Clock, Now, Op
from pyrula_core.stores import rules
from pyrula_core.stores.front import Listeners, StoreClock, StoreFront
from pyrula_core.stores.sqlite_file import CAUGHT, store_error
from pyrula_core.stores.sqlite_reads import READS, Session
from pyrula_core.stores.sqlite_shared import acquire, forked, release
from pyrula_core.stores.sqlite_writer import Job, closed
from pyrula_core.stores.sqlite_writes import (
    WRITES,
    append_ordinary,
    enter_namespace,
    known_namespace,
)

__all__ = ["SqliteStore"]

R = TypeVar("R")
Write = Callable[[Session, Any], object]


class SqliteStore(StoreFront):
    """Keeps journals in one SQLite file, with a write-ahead log.

    Every answer to a write comes after its commit. With ``durability`` machine the log is synced
    by each commit (``synchronous=FULL``); with process it is not (``NORMAL``), and a loss of power
    may take back the last commits, never a part of one. Raises NotAPyrulaStore, JournalTooNew or
    StoreUrlError when the path cannot be used; see ``sqlite_file``.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        durability: Durability = Durability.MACHINE,
    ) -> None:
        self.path = Path(path).absolute()
        self.clock = StoreClock(clock or SystemClock())
        self.closed = False
        try:
            self.shared = acquire(self.path, durability)
        except apsw.Error as error:
            raise store_error(error) from error
        super().__init__(self.shared.listeners.setdefault(namespace, Listeners()))
        try:
            self.namespace = self.find_namespace(namespace)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The URL of the file, with its absolute path."""
        query = "" if self.durability is Durability.MACHINE else f"?durability={self.durability}"
        return f"sqlite:///{quote(str(self.path))}{query}"

    @property
    def durability(self) -> Durability:
        """``machine`` or ``process``, as the writing connection itself tells it."""
        return self.shared.durability

    def at_once(self, op: Op[R]) -> tuple[R] | None:
        """Do a read, or a write whose caller is alone; another write is to be queued."""
        if self.closed or self.shared.forked:
            raise closed() if self.closed else forked(self.path)
        write = WRITES.get(type(op))
        try:
            if write is None:
                return (cast("R", self.read(op)),)
            answer = self.write_alone(op, write)
        except CAUGHT as error:
            raise store_error(error) from error
        if answer is None:
            return None
        if self.listeners:
            self.tell(op, answer)
        return (cast("R", answer),)

    def write_alone(self, op: Op[R], write: Write) -> object | None:
        """Do a write in the calling thread, or answer None when others are writing."""
        work, source = partial(self.write, write, op), getattr(op, "key", None)
        short = partial(self.write, append_ordinary, op) if isinstance(op, Append) else None
        return self.shared.writer.alone(work, source=source, short=short)

    def enqueue(self, op: Op[R], future: Future[R]) -> None:
        """Queue a write to be committed with others by the writer's thread."""
        work = partial(self.write, WRITES[type(op)], op)
        self.shared.writer.enqueue(Job(work, future, partial(self.tell, op)))

    def close(self) -> None:
        """Finish what was submitted; the file is closed with the last store on it."""
        if not self.closed:
            self.closed = True
            release(self.shared)

    def write(self, write: Write, op: Op[R], db: apsw.Connection) -> object:
        """Do a write in a transaction it is given."""
        return write(Session(db, self.namespace, self.clock.time()), op)

    def tell(self, op: Op[R], answer: object) -> None:
        """Tell the subscribers of a write that is durable."""
        changed = rules.changed_run(op, answer)
        if changed is not None:
            self.listeners.notify((changed,))

    def read(self, op: Op[R]) -> object:
        """Answer an operation that changes nothing."""
        if isinstance(op, Now):
            return self.clock.time()
        read = READS.get(type(op))
        if read is None:
            raise TypeError(f"{type(op).__name__} is not an operation of this store")
        with self.shared.reading() as db:
            return read(Session(db, self.namespace), op)

    def find_namespace(self, name: str) -> int:
        """Return the namespace's number in this file, entering it when it is new."""
        with self.shared.reading() as db:
            found = known_namespace(db, name)
        if found is not None:
            return found
        future: Future[int] = Future()
        job = Job(partial(enter_namespace, name), future, lambda _: None)
        self.shared.writer.enqueue(job)
        return future.result()
