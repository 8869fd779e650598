"""What the saver tells its sink of each durable write, and the seam through which it writes.

A sink makes records durable. ``StoreSink`` writes them to a store by themselves; a run's own sink
appends them together with the events of its journal, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from langgraph.types import Interrupt

from pyrula_core.errors import LeaseLost
from pyrula_core.ports import Appended, Fenced, Record, RecordRange, Store, WriteRecords

__all__ = ["CheckpointFact", "SaverFact", "Sink", "StoreSink", "TaskFact"]


@dataclass(frozen=True, slots=True)
class TaskFact:
    """A task's writes were recorded; ``bytes`` is what the records take."""

    checkpoint_ns: str
    checkpoint_id: str
    task_id: str
    task_path: str
    channels: tuple[str, ...]
    error: BaseException | None
    interrupts: tuple[Interrupt, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointFact:
    """A checkpoint was recorded."""

    checkpoint_ns: str
    checkpoint_id: str
    step: int
    source: str
    run_id: str | None
    parent_id: str | None


SaverFact = TaskFact | CheckpointFact


class Sink(Protocol):
    """Makes the saver's records durable."""

    def submit(
        self, thread: str, records: Sequence[Record | RecordRange], fact: SaverFact | None
    ) -> Future[None]:
        """Start writing; the future is done when the records are durable."""
        ...


class StoreSink:
    """Writes records to a store by themselves, without a run."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def submit(
        self, thread: str, records: Sequence[Record | RecordRange], fact: SaverFact | None
    ) -> Future[None]:
        """Start writing ``records`` to the partition ``thread``."""
        del fact
        done: Future[None] = Future()
        # A caller that gives up waiting must not cancel what is already being written.
        done.set_running_or_notify_cancel()
        write = self._store.submit(WriteRecords(thread, tuple(records)))
        write.add_done_callback(lambda answer: settle(done, answer))
        return done


def settle(done: Future[None], answer: Future[Appended | Fenced]) -> None:
    """Pass a store's answer on."""
    error = answer.exception()
    if error is not None:
        done.set_exception(error)
    elif isinstance(answer.result(), Fenced):
        done.set_exception(LeaseLost("another owner holds the run; nothing was written"))
    else:
        done.set_result(None)
