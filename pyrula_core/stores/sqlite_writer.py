"""The one writer of a store file in this process: commits many operations at once.

Owns the writing connection, the queue and the thread. A caller that is alone commits in its own
thread, since a change of threads costs more than half a commit. All others are queued, and while
one commit runs the next group gathers; so is everybody while commits are slow or another process
writes, for the caller may be an event loop. Must never decide what an operation does, never repeat
a commit, and never go on with a connection whose commit failed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import apsw

from pyrula_core.errors import StoreUnavailable
from pyrula_core.stores.sqlite_file import busy_ms_max, drop, store_error

__all__ = ["Job", "SqliteWriter", "Work", "closed", "group_ops_max", "inline_commit_ms_max"]

# So many operations share a commit at most: the bound of one transaction's memory and of the time
# another process waits for its turn.
group_ops_max: Final = 1000
# A caller's own thread is kept for commits while they take no longer than this on average, and this
# long for a lock that another process holds; beyond that the writer's thread takes over.
inline_commit_ms_max: Final = 2.0
inline_busy_ms_max: Final = 5
# The weight of the last commit in the average.
COMMIT_WEIGHT: Final = 0.1

Work = Callable[[apsw.Connection], object]


@dataclass(frozen=True, slots=True)
class Job:
    """One operation: what it does in a transaction, and who hears of it once that is durable."""

    work: Work
    future: Future[Any]
    told: Callable[[object], None]

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
    """Commits jobs in the order they were queued; ``commits`` and ``operations`` count them."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self.commits = 0
        self.operations = 0
        self._connect = connect
        self._db: apsw.Connection | None = None
        self._turn = threading.Lock()
        self._gate = threading.Lock()
        self._queue: deque[Job] = deque()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._last_source: object = None
        self._commit_ms = 0.0
        self._busy_ms = busy_ms_max
        self._connection()

    def alone(self, work: Work, *, source: object, short: Work | None = None) -> object | None:
        """Do work in the calling thread when nobody else writes; None when it is to be queued.

        Alone is who wrote last and finds nobody queued. ``short`` does the same as ``work`` by one
        statement, or nothing and answers None. Raises what the work or its commit raises. No work
        answers None.
        """
        again = source == self._last_source
        self._last_source = source
        slow = self._commit_ms > inline_commit_ms_max
        if not again or slow or self._queue or not self._turn.acquire(blocking=False):
            return None
        self._busy_ms = inline_busy_ms_max
        try:
            if self._closed:
                raise closed()
            answer = None if short is None else self._transact_short(short)
            return self._transact((work,))[0] if answer is None else answer
        except JobFailed as failed:
            raise failed.error from failed.error.__cause__
        except apsw.BusyError:  # Another process writes. Nothing was done; the thread can wait.
            return None
        finally:
            self._busy_ms = busy_ms_max
            self._turn.release()

    def enqueue(self, job: Job) -> None:
        """Queue a job behind every job before it."""
        with self._gate:  # Nothing is queued behind the last look that close() takes.
            if self._closed:
                raise closed()
            self._queue.append(job)
        if self._thread is None:
            with self._turn:
                self._start()
        self._wake.set()

    def close(self) -> None:
        """Finish every queued job and close the connection; idempotent."""
        with self._gate:
            self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._turn:
            while self._queue:
                self._run(self._take())
            if self._db is not None:
                self._db.close()
                self._db = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="pyrula-sqlite-writer", daemon=True
            )
            self._thread.start()

    def _serve(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            # Jobs are taken only by who holds the turn. So an empty queue and a free turn mean
            # that every earlier job is done, and a caller that sees both may go first.
            with self._turn:
                while self._queue:
                    self._run(self._take())

    def _take(self) -> list[Job]:
        count = min(len(self._queue), group_ops_max)
        return [self._queue.popleft() for _ in range(count)]

    # --- transactions: the caller holds the turn ------------------------------------------------

    def _run(self, jobs: Sequence[Job]) -> None:
        """Do jobs in one transaction; one that raises is found by doing them one by one."""
        try:
            answers = self._transact([job.work for job in jobs])
        except JobFailed as failed:
            if len(jobs) == 1:
                jobs[0].fail(failed.error)
            else:
                for job in jobs:
                    self._run((job,))
        except Exception as error:  # noqa: BLE001 - the futures carry it to those who wait
            for job in jobs:
                job.fail(error)
        else:
            for job, answer in zip(jobs, answers, strict=True):
                job.succeed(answer)

    def _transact(self, works: Sequence[Work]) -> list[object]:
        db = self._connection()
        db.execute("BEGIN IMMEDIATE")
        try:
            answers = [work(db) for work in works]
        except BaseException as error:
            self._roll_back(db)
            if isinstance(error, Exception):
                raise JobFailed(error) from error
            raise
        start = time.perf_counter()
        try:
            db.execute("COMMIT")
        except BaseException:
            # After a failed fsync the kernel may have forgotten the unwritten pages, so a second
            # one would succeed without writing them. Only what a new connection reads is true.
            self._drop(db)
            raise
        self._count(len(works), start)
        return answers

    def _transact_short(self, work: Work) -> object | None:
        db = self._connection()
        start = time.perf_counter()
        try:
            answer = work(db)
        except apsw.BusyError:
            raise
        except BaseException:  # The statement was its own commit: see above.
            self._drop(db)
            raise
        if answer is not None:
            self._count(1, start)
        return answer

    def _count(self, operations: int, start: float) -> None:
        took = (time.perf_counter() - start) * 1000
        self._commit_ms += COMMIT_WEIGHT * (took - self._commit_ms)
        self.commits += 1
        self.operations += operations

    def _connection(self) -> apsw.Connection:
        db = self._db
        if db is None:
            db = self._db = self._connect()
            db.set_busy_handler(self._wait_for_lock)
        if db.in_transaction:  # An interrupt came between a BEGIN and what should have followed.
            db.execute("ROLLBACK")
        return db

    def _wait_for_lock(self, attempts: int) -> bool:
        """Wait a little for another process; SQLite asks again until this answers False."""
        step = 1 if attempts < 10 else 10
        if attempts * step >= self._busy_ms:
            return False
        time.sleep(step / 1000)
        return True

    def _roll_back(self, db: apsw.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            self._drop(db)

    def _drop(self, db: apsw.Connection) -> None:
        self._db = None
        drop(db)


def closed() -> StoreUnavailable:
    """Return the error for using a store that was closed."""
    return StoreUnavailable("this store was closed", hint="Open it again with open_store")
