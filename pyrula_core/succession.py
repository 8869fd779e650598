"""Retries, forks and the removal of ended runs.

Owns which runs may have successors. A successor is a run of its own, linked to the old one, whose
journal begins with copies of what the old one recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyrula_core.codec import encode
from pyrula_core.errors import RetryRefusedError
from pyrula_core.events import Event
from pyrula_core.history import read_history
from pyrula_core.lineage import created_again, forked, retried
from pyrula_core.model import RunKey, RunRow, RunStatus, check_run_id, derived_run_id
from pyrula_core.ports import Create, DeleteRun, Exists, ListRuns
from pyrula_core.steering import Steering

__all__ = ["Succession"]

page_rows: Final = 200
ENDED: Final = frozenset(status for status in RunStatus if status.ended)


class Succession(Steering):
    """The part of a Client that makes new runs of old ones, and removes old ones."""

    async def retry(self, name: str, run_id: str, *, as_run_id: str | None = None) -> str:
        """Start a new run that serves what a failed run recorded and runs the rest live.

        Returns the new run's id; idempotency keys stay those of the old run, since the failed step
        may have had its effect. Retrying the same run again returns the same successor.

        Raises RetryRefusedError with code ``retry_cancelled`` for a cancelled run and
        ``retry_not_failed`` for one that is open or complete, RunNotFoundError.
        """
        row = await self.head(RunKey(name, run_id))
        check_failed(row)
        history = await read_history(self.store, row.key)
        definition = self.registry.find(name, row.version)
        derive = retried if definition is None or definition.retried is None else definition.retried
        created = created_again(history, run_id, retry_of=run_id)
        events = derive(history)
        if events and events[0].type == created.type:
            created = Event(created.type, {**created.data, **events[0].data}, events[0].payload)
            events = events[1:]
        return await self._succeed(row, as_run_id or derived_run_id(run_id, ":r"), created, events)

    async def fork(
        self,
        name: str,
        run_id: str,
        *,
        at: str | int,
        patch: Mapping[str, Any] | None = None,
        as_run_id: str | None = None,
    ) -> str:
        """Start a new run that shares a run's journal up to ``at`` and goes its own way from there.

        ``at`` is a step's key or a seq, ``patch`` replaces results of kept steps by key, and the
        arguments under ``input``. Effects of the new run have idempotency keys of their own.

        Raises RetryRefusedError with code ``fork_point_unknown``, RunNotFoundError.
        """
        row = await self.head(RunKey(name, run_id))
        codec = self.codecs_of(row)[0]
        definition = self.registry.find(name, row.version)
        if definition is not None and definition.executor is not None:
            raise RetryRefusedError(
                f"run {row.key} is a graph's: its state is forked with checkpoints, not steps",
                hint="Call the graph with the checkpoint_id of the state to start from",
                code="fork_unsupported",
            )
        history = await read_history(self.store, row.key)
        events = forked(history, at, patch or {}, codec)
        chosen = as_run_id or derived_run_id(run_id, f":f{self.entropy.token()[:8]}")
        created = created_again(history, run_id, fork_of=run_id, fork_at=at, origin=chosen)
        if patch and "input" in patch:
            created = Event(created.type, created.data, codec.encode(list(patch["input"])))
        return await self._succeed(row, chosen, created, events)

    async def _succeed(self, row: RunRow, run_id: str, created: Event, events: list[Event]) -> str:
        now = self.clock.time()
        definition = self.registry.find(row.key.name, row.version)
        stateful = definition is not None and definition.retried is not None
        named = row.partition != row.key.run_id
        answer = await self.store.call(
            Create(
                key=RunKey(row.key.name, check_run_id(run_id)),
                kind=row.kind,
                version=row.version,
                # A graph's state lives in its partition, also where that is named by the run.
                partition=row.partition if stateful or named else run_id,
                events=tuple(encode(event.stamped(now)) for event in (created, *events)),
                parent=row.parent,
            )
        )
        if isinstance(answer, Exists) and answer.row.status is RunStatus.ERROR:
            # The successor failed as well: the chain goes on from there.
            return await self.retry(row.key.name, run_id)
        return answer.row.key.run_id

    async def retry_all(
        self,
        name: str | None = None,
        *,
        code: str | None = None,
        created_after: float | None = None,
        created_before: float | None = None,
    ) -> list[str]:
        """Retry every failed run with that error code in that span of time (seconds, Unix).

        Returns the new run ids. Runs that have a successor already are not retried again.
        """
        started: list[str] = []
        cursor: str | None = None
        while True:
            page = await self.store.call(
                ListRuns(
                    name=name,
                    statuses=frozenset({RunStatus.ERROR}),
                    error_code=code,
                    created_after=created_after,
                    created_before=created_before,
                    limit=page_rows,
                    cursor=cursor,
                )
            )
            started += [await self.retry(row.key.name, row.key.run_id) for row in page.rows]
            cursor = page.cursor
            if cursor is None:
                return list(dict.fromkeys(started))

    async def prune(self, *, before: float, name: str | None = None) -> int:
        """Delete ended runs that last changed before ``before`` (seconds, Unix); return how many.

        Never takes an open run, however old. State of threads is kept: see ``JournalSaver.prune``.
        """
        deleted, cursor = 0, None
        while True:
            page = await self.store.call(
                ListRuns(
                    name=name,
                    statuses=ENDED,
                    created_before=before,
                    limit=page_rows,
                    cursor=cursor,
                )
            )
            for row in page.rows:
                if row.updated_at < before and await self.store.call(DeleteRun(row.key)):
                    deleted += 1
            cursor = page.cursor
            if cursor is None:
                return deleted


def check_failed(row: RunRow) -> None:
    """Refuse a run that has not failed."""
    if row.status is RunStatus.CANCELLED:
        raise RetryRefusedError(
            f"run {row.key} was cancelled",
            hint="Start it anew with a new run id; a cancelled run stays cancelled",
            code="retry_cancelled",
        )
    if row.status is not RunStatus.ERROR:
        raise RetryRefusedError(
            f"run {row.key} is {row.shown_status}, not failed",
            hint="Only a failed run can be retried; fork any run with client.fork",
            code="retry_not_failed",
        )
