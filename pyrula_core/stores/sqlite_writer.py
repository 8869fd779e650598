"""The one writer of a store file in this process: commits many operations at once.

Owns the writing connection, the queue and the thread. A caller that is alone commits in its own
thread, since a change of threads costs more than half a commit; callers that come while a commit
runs are queued, and the thread commits all of them as one transaction. Must never decide what an
operation does, never repeat a commit, and never go on with a connection whose commit failed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import apsw

from pyrula_core.errors import StoreUnavailable
from pyrula_core.stores.sqlite_file import drop, store_error

__all__ = ["Job", "SqliteWriter", "group_ops_max"]

# So many operations share a commit at most: the bound of one transaction's memory and of the time
# another process waits for its turn.
group_ops_max: Final = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """One operation: what it does in a transaction, and who hears of it once that is durable."""

    work: Callable[[apsw.Connection], object]
    future: Future[Any]
    told: Callable[[object], None]
    source: object

    def succeed(self, answer: object) -> None:
        """Resolve the future with a durable answer, then tell the subscribers."""
        self.future.set_result(answer)
        self.told(answer)

    def fail(self, error: BaseException) -> None:
        """Resolve the future with what a caller is told of ``error``."""
        self.future.set_exception(store_error(error))


class JobFailed(Exception):
    """One job of a group raised; nothing of the group was written."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


class SqliteWriter:
    """Commits jobs in the order they were submitted; ``commits`` and ``operations`` count."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self.commits = 0
        self.operations = 0
        self._connect = connect
        self._db: apsw.Connection | None = connect()
        self._turn = threading.Lock()
        self._queue: deque[Job] = deque()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._last_source: object = None

    def submit(self, job: Job) -> None:
        """Do a job: here and now when nobody else writes, else on the writer's thread."""
        if self._closed:
            raise StoreUnavailable("this store was closed", hint="Open it again with open_store")
        alone = job.source == self._last_source and not self._queue
        self._last_source = job.source
        if alone and self._turn.acquire(blocking=False):
            try:
                self._run((job,))
            finally:
                self._turn.release()
        else:
            self._enqueue(job)

    def close(self) -> None:
        """Finish every submitted job and close the connection; idempotent."""
        self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._turn:
            self._run_queue()
            if self._db is not None:
                self._db.close()
                self._db = None

    def _enqueue(self, job: Job) -> None:
        self._queue.append(job)
        if self._thread is None:
            with self._turn:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._serve, name="pyrula-sqlite-writer", daemon=True
                    )
                    self._thread.start()
        self._wake.set()

    def _serve(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            # Jobs are taken only by who holds the turn. So an empty queue and a free turn mean
            # that every earlier job is done, and a caller that sees both may go first.
            with self._turn:
                self._run_queue()

    def _run_queue(self) -> None:
        while self._queue:
            count = min(len(self._queue), group_ops_max)
            self._run([self._queue.popleft() for _ in range(count)])

    def _run(self, jobs: Sequence[Job]) -> None:
        """Do jobs in one transaction; one that raises is found by doing them one by one."""
        try:
            answers = self._transact(jobs)
        except JobFailed as failed:
            if len(jobs) == 1:
                jobs[0].fail(failed.error)
            else:
                for job in jobs:
                    self._run((job,))
        except Exception as error:  # noqa: BLE001 - the futures carry it to those who wait.
            for job in jobs:
                job.fail(error)
        else:
            for job, answer in zip(jobs, answers, strict=True):
                job.succeed(answer)

    def _transact(self, jobs: Sequence[Job]) -> list[object]:
        db = self._db
        if db is None:
            db = self._db = self._connect()
        if db.in_transaction:  # An interrupt came between a BEGIN and what should have followed.
            db.execute("ROLLBACK")
        db.execute("BEGIN IMMEDIATE")
        try:
            answers = [job.work(db) for job in jobs]
        except BaseException as error:
            self._roll_back(db)
            if isinstance(error, Exception):
                raise JobFailed(error) from error
            raise
        self._commit(db)
        self.operations += len(jobs)
        return answers

    def _roll_back(self, db: apsw.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            self._drop(db)

    def _commit(self, db: apsw.Connection) -> None:
        try:
            db.execute("COMMIT")
        except BaseException:
            # After a failed fsync the kernel may have forgotten the unwritten pages, so a second
            # one would succeed without writing them. Only what a new connection reads is true.
            self._drop(db)
            raise
        self.commits += 1

    def _drop(self, db: apsw.Connection) -> None:
        self._db = None
        drop(db)
