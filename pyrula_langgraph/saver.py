"""``JournalSaver``: LangGraph's checkpointer on a pyrula store, linear in what a run adds.

Owns the checkpointer API, sync and async, over one set of generators. It writes through a *sink*,
so that a run can append the saver's records together with its own events.

Several processes may write one thread. A checkpoint's content never changes under its id, and an
element never under its digest, so nothing remembered of either can go stale but by a deletion.
Every deletion replaces the thread's generation record first. The saver reads that record again
*after* each of its writes; when it is not the remembered one, it forgets the thread and writes the
same rows once more with every element they need. A run-bound saver skips this: its thread's lease
keeps others out.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterator, Mapping
from collections.abc import Sequence as Sequence_
from concurrent.futures import Future
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from pyrula_core.ports import Op, Store
from pyrula_core.stores import open_store
from pyrula_langgraph import saver_history, saver_sweep, saver_writes
from pyrula_langgraph.elements import ValueCodec
from pyrula_langgraph.facts import Sink, StoreSink
from pyrula_langgraph.saver_latch import Latch
from pyrula_langgraph.saver_memory import Memory
from pyrula_langgraph.saver_writes import Flush, Place, Session
from pyrula_langgraph.serde import GraphSerde

__all__ = ["JournalSaver"]

R = TypeVar("R")

Work = Generator[Any, Any, R]


class JournalSaver(BaseCheckpointSaver[Any]):
    """Keeps LangGraph's checkpoints in a pyrula store; a drop-in checkpointer.

    ``store`` is a store or the URL of one. ``serde`` defaults to a ``GraphSerde``, which refuses
    what it cannot record exactly; any LangGraph serializer may be given. ``close`` releases a store
    that was opened from a URL.

    >>> saver = JournalSaver("memory://")
    >>> saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
    True
    """

    def __init__(self, store: Store | str, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or GraphSerde())
        self.owns_store = isinstance(store, str)
        self.store: Store = open_store(store) if isinstance(store, str) else store
        self.sink: Sink = StoreSink(self.store)
        self._latch = Latch()
        self._session = Session(ValueCodec(self.serde), Memory())

    def close(self) -> None:
        """Close the store, when this saver opened it."""
        if self.owns_store:
            self.store.close()

    def bound(
        self, *, sink: Sink, on_error: Callable[[BaseException], None] | None = None
    ) -> JournalSaver:
        """Return a clone for one run: its own sink and failures, the same memory.

        The run must hold its thread's lease: such a saver does not look for other writers.
        ``on_error`` is told of each failed write, from the thread it failed in.
        """
        clone = copy.copy(self)
        clone.owns_store = False
        clone.sink = sink
        clone._latch = Latch(sticky=True, on_error=on_error)  # noqa: SLF001
        clone._session = Session(  # noqa: SLF001
            self._session.codec, self._session.memory, exclusive=True
        )
        return clone

    @property
    def latched(self) -> BaseException | None:
        """The first failed write that no ``put`` has raised again yet."""
        return self._latch.first

    def verify_next(self, thread_id: str) -> None:
        """Make the thread's next checkpoint encode every value again, trusting no memory."""
        self._session.memory.of(thread_id).verify = True

    def forget(self, thread_id: str) -> None:
        """Drop what this process remembers of a thread, as when its run begins to wait."""
        self._session.memory.forget(thread_id)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> JournalSaver:
        """Return this saver: ``GraphSerde`` has a table of types of its own."""
        if isinstance(self.serde, GraphSerde):
            return self
        clone = super().with_allowlist(extra_allowlist)
        assert isinstance(clone, JournalSaver)
        clone._session = Session(  # noqa: SLF001
            ValueCodec(clone.serde), self._session.memory, exclusive=self._session.exclusive
        )
        return clone

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after ``current``: an int, or a string after a string.

        Ints may repeat across forks. That is safe here, since a channel is only ever inherited
        from the very parent a checkpoint names.
        """
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}"
        return super().get_next_version(current, channel)

    # --- sync -----------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint ``config`` names, or the newest of its thread and namespace."""
        return self._run(saver_history.get_tuple(self._session, config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield matching checkpoints, newest first; without a config, those of every thread."""
        work = saver_history.listing(
            self._session, saver_history.Query.of(config, before, filter), limit
        )
        answer: Any = None
        while True:
            try:
                asked = work.send(answer)
            except StopIteration:
                return
            if isinstance(asked, CheckpointTuple):
                answer = None
                yield asked
            else:
                answer = self._submitted(asked).result()

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; returns its config when it is durable.

        Raises first what an earlier write of the thread failed with.
        """
        place = Place.of(config)
        self._latch.check(place.thread)
        self._run(saver_writes.put(self._session, config, checkpoint, metadata, new_versions))
        return child_config(place, checkpoint)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence_[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store a task's writes; returns when they are durable.

        Of a task that failed after its result, as in a conditional edge, only the failure is kept.
        """
        what = task_place(config, task_id)
        try:
            self._run(saver_writes.put_writes(self._session, config, writes, task_id, task_path))
        except Exception as error:
            self._latch.failed(what, error)
            raise
        self._latch.succeeded(what)

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything stored of a thread."""
        self._run(saver_sweep.delete_thread(self._session, thread_id))

    def delete_for_runs(self, run_ids: Sequence_[str]) -> None:
        """Delete the checkpoints of runs; others stay whole.

        Ancestors stay that a later run's delta channels are rebuilt from.
        """
        self._run(saver_sweep.delete_for_runs(self._session, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread's checkpoints and writes to another thread."""
        self._run(saver_sweep.copy_thread(self._session, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence_[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's newest checkpoint, or with ``"delete"`` none."""
        self._run(saver_sweep.prune(self._session, thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence_[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return delta channels' writes since their last stored value, and that value."""
        return self._run(saver_history.delta_history(self._session, config, channels))

    # --- async ----------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Await ``get_tuple``."""
        return await self._arun(saver_history.get_tuple(self._session, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield what ``list`` yields."""
        work = saver_history.listing(
            self._session, saver_history.Query.of(config, before, filter), limit
        )
        answer: Any = None
        while True:
            try:
                asked = work.send(answer)
            except StopIteration:
                return
            if isinstance(asked, CheckpointTuple):
                answer = None
                yield asked
            else:
                answer = await arrived(self._submitted(asked))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Await ``put``."""
        place = Place.of(config)
        self._latch.check(place.thread)
        await self._arun(
            saver_writes.put(self._session, config, checkpoint, metadata, new_versions)
        )
        return child_config(place, checkpoint)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence_[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Await ``put_writes``."""
        what = task_place(config, task_id)
        try:
            await self._arun(
                saver_writes.put_writes(self._session, config, writes, task_id, task_path)
            )
        except Exception as error:
            self._latch.failed(what, error)
            raise
        self._latch.succeeded(what)

    async def adelete_thread(self, thread_id: str) -> None:
        """Await ``delete_thread``."""
        await self._arun(saver_sweep.delete_thread(self._session, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence_[str]) -> None:
        """Await ``delete_for_runs``."""
        await self._arun(saver_sweep.delete_for_runs(self._session, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Await ``copy_thread``."""
        await self._arun(saver_sweep.copy_thread(self._session, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence_[str], *, strategy: str = "keep_latest") -> None:
        """Await ``prune``."""
        await self._arun(saver_sweep.prune(self._session, thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence_[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Await ``get_delta_channel_history``."""
        return await self._arun(saver_history.delta_history(self._session, config, channels))

    # --- driving --------------------------------------------------------------------------------

    def _submitted(self, asked: Op[Any] | Flush) -> Future[Any]:
        """Return the future of what a generator asked for."""
        if isinstance(asked, Flush):
            return self.sink.submit(asked.thread, asked.records, asked.fact)
        return self.store.submit(asked)

    def _run(self, work: Work[R]) -> R:
        """Drive a generator to its end, blocking."""
        answer: Any = None
        failure: BaseException | None = None
        while True:
            try:
                asked = work.send(answer) if failure is None else work.throw(failure)
            except StopIteration as end:
                result: R = end.value
                return result
            answer = failure = None
            try:
                answer = self._submitted(asked).result()
            except Exception as error:  # noqa: BLE001 - it is raised where the generator stands
                failure = error

    async def _arun(self, work: Work[R]) -> R:
        """Drive a generator to its end, awaiting."""
        answer: Any = None
        failure: BaseException | None = None
        while True:
            try:
                asked = work.send(answer) if failure is None else work.throw(failure)
            except StopIteration as end:
                result: R = end.value
                return result
            answer = failure = None
            try:
                answer = await arrived(self._submitted(asked))
            except Exception as error:  # noqa: BLE001 - it is raised where the generator stands
                failure = error


async def arrived(future: Future[R]) -> R:
    """Return a future's result; one that is done already costs no turn of the event loop.

    A caller that is cancelled stops waiting; what it asked for is done all the same.
    """
    if future.done():
        return future.result()
    return await asyncio.shield(asyncio.wrap_future(future))


def child_config(place: Place, checkpoint: Checkpoint) -> RunnableConfig:
    """Return the config of a checkpoint that was just stored."""
    return {
        "configurable": {
            "thread_id": place.thread,
            "checkpoint_ns": place.ns,
            "checkpoint_id": checkpoint["id"],
        }
    }


def task_place(config: Mapping[str, Any], task_id: str) -> tuple[str, ...]:
    """Return what a task's failed write is remembered under."""
    place = Place.of(config)
    return (place.thread, place.ns, place.checkpoint_id or "", task_id)
