"""Child runs: how a parent starts them, and how it learns what became of them.

Owns the link between two journals. A child's end is posted to its parent; should that post be lost
with the process, the parent finds out when it looks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyrula_core.codec import encode
from pyrula_core.endings import Continued
from pyrula_core.events import Event, EventType, Payload
from pyrula_core.history import read_history
from pyrula_core.model import RunKey
from pyrula_core.ports import Claimed, Create, Head, Post

if TYPE_CHECKING:
    from pyrula_core.engine import Engine

__all__ = ["Children", "outcome_for_parent"]

log = logging.getLogger("pyrula.children")


class Children:
    """What one attempt can do about child runs; ``local`` holds those driven in this process."""

    def __init__(self, engine: Engine, parent: RunKey) -> None:
        self.engine = engine
        self.parent = parent
        self.local: set[asyncio.Task[Any]] = set()

    async def create(self, child: RunKey, args: Sequence[Any], *, key: str) -> None:
        """Create a child run, unless it is there already; raises NotRegisteredError."""
        definition = self.engine.registry.current(child.name)
        parent = {"name": self.parent.name, "run_id": self.parent.run_id, "key": key}
        fields = {"kind": definition.kind, "version": definition.version, "parent": parent}
        payload = definition.input_codec.encode(list(args))
        now = self.engine.clock.time()
        created = Event(EventType.RUN_CREATED, fields, payload, now)
        await self.engine.store.call(
            Create(
                key=child,
                kind=definition.kind,
                version=definition.version,
                partition=child.run_id,
                events=(encode(created),),
                parent=str(self.parent),
            )
        )

    def drive(self, child: RunKey) -> None:
        """Drive a child in this process, where nobody else does."""
        task = asyncio.create_task(self._drive(child), name=f"child {child}")
        self.local.add(task)
        task.add_done_callback(self.local.discard)

    async def _drive(self, child: RunKey) -> None:
        """Drive a child, and the runs that it continues as."""
        answer = await self.engine.claim(child)
        while isinstance(answer, Claimed):
            ending = await self.engine.drive(answer.row)
            if not isinstance(ending, Continued):
                return
            answer = await self.engine.claim(RunKey(child.name, ending.run_id))

    async def outcome(self, child: RunKey, key: str) -> Event | None:
        """Return the event that tells a parent how its child ended, None while it goes on."""
        while True:
            row = await self.engine.store.call(Head(child))
            if row is None or not row.status.ended:
                return None
            last = (await read_history(self.engine.store, child, row.seq - 1))[-1]
            if last.type is not EventType.RUN_CONTINUED:
                return outcome_for_parent(last, key)
            child = RunKey(child.name, last.data["run_id"])

    def decode(self, child: RunKey, payload: Payload) -> Any:
        """Return a child's output, read with the codec of its definition."""
        definition = self.engine.registry.current(child.name)
        return definition.output_codec.decode(payload)

    async def cancel(self, child: RunKey, reason: str) -> None:
        """Ask a child to end, as its parent has."""
        now = self.engine.clock.time()
        event = Event(EventType.RUN_CANCEL_REQUESTED, {"reason": reason}, at=now)
        await self.engine.store.call(Post(child, (encode(event),), wake=True, cancel=True))
        await self._drive(child)


def outcome_for_parent(ended: Event, key: str) -> Event:
    """Return what a child's last event is in its parent's journal."""
    if ended.type is EventType.RUN_COMPLETE:
        return Event(EventType.CHILD_DONE, {"key": key}, ended.payload)
    fields = {
        "key": key,
        "code": ended.data.get("code", str(ended.type).partition(":")[2]),
        "user_code": ended.data.get("user_code"),
        "failure": ended.data.get("failure") or {},
    }
    return Event(EventType.CHILD_ERROR, fields)
