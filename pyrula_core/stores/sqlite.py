"""The store that is one SQLite file: the default, embedded and durable.

Owns nothing but the way of an operation to a reading connection or to the file's writer; the file
itself is shared by all stores of this process that are open on it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import apsw

from pyrula_core.clock import SystemClock
from pyrula_core.model import Durability
from pyrula_core.ports import Clock, Now, Op
from pyrula_core.stores import rules
from pyrula_core.stores.front import Listeners, StoreClock, StoreFront
from pyrula_core.stores.sqlite_file import store_error
from pyrula_core.stores.sqlite_reads import READS, Session
from pyrula_core.stores.sqlite_shared import acquire, check_process, release
from pyrula_core.stores.sqlite_writer import Job
from pyrula_core.stores.sqlite_writes import WRITES, namespace_pk

__all__ = ["SqliteStore"]

R = TypeVar("R")


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

    def submit(self, op: Op[R]) -> Future[R]:
        """Start an operation; a read, and a write that comes alone, is done when this returns."""
        check_process(self.shared)
        future: Future[R] = Future()
        work = WRITES.get(type(op))
        if work is None:
            self.settle_read(op, future)
        else:
            self.shared.writer.submit(self.job(op, work, future))
        return future

    def close(self) -> None:
        """Finish what was submitted; the file is closed with the last store on it."""
        if not self.closed:
            self.closed = True
            release(self.shared)

    def job(self, op: Op[R], work: Callable[[Session, Any], object], future: Future[R]) -> Job:
        """Return the job that does a write."""

        def write(db: apsw.Connection) -> object:
            return work(Session(db, self.namespace, self.clock.time()), op)

        def told(answer: object) -> None:
            changed = rules.changed_run(op, answer)
            if changed is not None:
                self.listeners.notify((changed,))

        return Job(write, future, told, source=getattr(op, "key", None))

    def settle_read(self, op: Op[R], future: Future[R]) -> None:
        """Do a read in the calling thread and resolve its future."""
        try:
            future.set_result(cast("R", self.read(op)))
        except Exception as error:  # noqa: BLE001 - the future carries it to whoever waits.
            future.set_exception(store_error(error))

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
        """Return the namespace's number in this file."""
        future: Future[int] = Future()
        job = Job(
            lambda db: namespace_pk(Session(db, 0), name), future, lambda _: None, source=None
        )
        self.shared.writer.submit(job)
        return future.result()
