"""Queries and updates: talking with a run that goes on.

Owns how a caller's question reaches a body and its answer comes back. Must never write to a journal
but by ``Post``.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pyrula_core.errors import UpdateError, UpdateRejected, UpdateTimeout
from pyrula_core.events import Event, EventType
from pyrula_core.history import read_history
from pyrula_core.model import RunKey, RunRow
from pyrula_core.observing import needs_body, query_replayed
from pyrula_core.steering import finished
from pyrula_core.succession import Succession
from pyrula_core.values import JSON_CODEC

__all__ = ["Messages"]


class Messages(Succession):
    """The part of a Client that talks with bodies."""

    async def query(self, name: str, run_id: str, query: str, *args: Any) -> Any:
        """Return what the run's query function says of its recorded state; nothing changes.

        The journal is replayed in this process, which must register the workflow. Works for runs
        that have ended too. Raises QueryError, RunNotFoundError, NondeterminismError.
        """
        row = await self.head(RunKey(name, run_id))
        definition = needs_body(self.registry.find(name, row.version), row)
        history = await read_history(self.store, row.key)
        return await query_replayed(self.engine, row, definition, history, query, args)

    async def update(
        self,
        name: str,
        run_id: str,
        update: str,
        *args: Any,
        update_id: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send an update, wait until it was handled, and return its result.

        The same ``update_id`` again is the same update. Raises UpdateRejected (the validator
        refused), UpdateError (the handler raised), UpdateTimeout (it will still be handled),
        RunNotFoundError, RunFinishedError.
        """
        key = RunKey(name, run_id)
        chosen = update_id or self.entropy.token()
        fields = {"id": chosen, "name": update}
        event = Event(EventType.UPDATE_REQUESTED, fields, JSON_CODEC.encode(list(args)))
        await self.post(key, [event], wake=True, guard=f"update:{chosen}")
        try:
            async with asyncio.timeout(timeout):
                return result_of(await self._handled(key, chosen), update, key)
        except TimeoutError:
            raise UpdateTimeout(
                f"update {update!r} of run {key} was not handled within {timeout} s",
                hint=f"It will be; ask again with update_id={chosen!r}",
            ) from None

    async def _handled(self, key: RunKey, update_id: str) -> Event:
        """Drive or await the run until the update has an outcome."""
        while True:
            row = await self.head(key)
            for event in await read_history(self.store, key):
                is_outcome = event.type in (EventType.UPDATE_HANDLED, EventType.UPDATE_REJECTED)
                if is_outcome and event.data["id"] == update_id:
                    return event
            if row.status.ended:
                raise finished(row)
            await self.advance(row)

    async def advance(self, row: RunRow) -> None:
        """Drive a run a stretch, or wait a moment for who does."""
        raise NotImplementedError


def result_of(event: Event, update: str, key: RunKey) -> Any:
    """Return an update's result, or raise why there is none."""
    if event.type is EventType.UPDATE_HANDLED:
        return None if event.payload is None else JSON_CODEC.decode(event.payload)
    message = event.data["failure"].get("message", "")
    if event.data.get("stage") == "validator":
        raise UpdateRejected(f"run {key} rejected update {update!r}: {message}")
    raise UpdateError(f"the handler of update {update!r} of run {key} raised: {message}")
