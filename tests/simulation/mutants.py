"""Engines and stores with one promise broken, each with the faults that must show it.

A mutant patches what the real thing does and is taken back afterwards. ``KILLS`` says which
workload, under which faults, must end in a violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pyrula_core import codec
from pyrula_core.attempt import Ack, Attempt
from pyrula_core.delivery import Delivery
from pyrula_core.errors import StoreUnavailable
from pyrula_core.model import Controls, RunKey
from pyrula_core.ports import Append, Claim, Claimed, Clock, Conflict, Head, Post, Store
from pyrula_core.stores import MemoryStore, rules
from pyrula_core.testing.sim_worker import SimWorker

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """One broken promise: how it is broken, and where that must be noticed."""

    name: str
    workload: str
    faults: str
    patch: Patch = lambda _: None
    store: Callable[[Clock], Store] | None = None
    world: dict[str, Any] = field(default_factory=dict)


# --- stores ---------------------------------------------------------------------------------------


class NoFence(MemoryStore):
    """Takes an append from whoever held the run once."""

    def append(self, op: Append) -> Any:
        row = self.space.row(op.key)
        if row is not None and row.owner is not None and row.epoch != op.epoch:
            op = replace(op, epoch=row.epoch, expected_seq=row.seq)
        return super().append(op)


class NoSeqCheck(MemoryStore):
    """Writes behind whatever is there."""

    def append(self, op: Append) -> Any:
        answer = super().append(op)
        if isinstance(answer, Conflict):
            return super().append(replace(op, expected_seq=answer.seq))
        return answer


class EpochReset(MemoryStore):
    """Gives every owner the same epoch."""

    def claim(self, op: Claim) -> Any:
        answer = super().claim(op)
        if isinstance(answer, Claimed):
            journal = self.space.journals[answer.row.key]
            journal.row = replace(journal.row, epoch=1)
            return Claimed(journal.row)
        return answer


class TerminalNotChecked(MemoryStore):
    """Takes signals for a run that has ended."""

    def post(self, op: Post) -> Any:
        row = self.space.row(op.key)
        if row is None or not row.status.ended:
            return super().post(op)
        journal, now = self.space.journals[op.key], self.clock.time()
        self.space.put(journal, rules.after_post(row, op, now=now), op.events, now)
        return super().post(replace(op, key=RunKey("none", "none")))


# --- the engine -----------------------------------------------------------------------------------


def shown_before_append(patch: pytest.MonkeyPatch) -> None:
    """Deliver a result as soon as it was handed to the store."""

    async def append(self: Delivery, events: Any, **options: Any) -> Ack:
        self.attempt.submit(events, **options)
        return Ack(self.attempt.seq, Controls())

    patch.setattr(Delivery, "_append", append)


def unknown_is_success(patch: pytest.MonkeyPatch) -> None:
    """Believe that a write whose outcome is unknown has happened."""
    settle = Attempt._settle

    def believing(self: Attempt, answer: Future[Any]) -> Any:
        if isinstance(answer.exception(), StoreUnavailable):
            written = sum(len(write.bodies) for write in self._in_flight)
            return self._acknowledge(self.seq + written, self.controls)
        return settle(self, answer)

    patch.setattr(Attempt, "_settle", believing)


def unknown_is_failure(patch: pytest.MonkeyPatch) -> None:
    """Tell the body that the step failed, and go on writing."""
    settle = Attempt._settle

    def failing(self: Attempt, answer: Future[Any]) -> Any:
        batch = settle(self, answer)
        self.failure = None
        return batch

    async def append(self: Delivery, events: Any, **options: Any) -> Ack:
        future = self.attempt.submit(events, **options)
        try:
            return await asyncio.wrap_future(future)
        except StoreUnavailable:
            return Ack(self.attempt.seq, Controls())

    patch.setattr(Attempt, "_settle", failing)
    patch.setattr(Delivery, "_append", append)


def blind_retry(patch: pytest.MonkeyPatch) -> None:
    """Send a write whose outcome is unknown again, at the journal's new end."""
    settle = Attempt._settle

    def again(self: Attempt, answer: Future[Any]) -> Any:
        if isinstance(answer.exception(), StoreUnavailable):
            self.seq = self.store.submit(Head(self.key)).result().seq
            return self._in_flight
        return settle(self, answer)

    patch.setattr(Attempt, "_settle", again)


def crc_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Read whatever a frame says."""
    patch.setattr(codec, "unseal", lambda frame, **_: frame[: -codec.CRC.size])


def cancel_swallowed(patch: pytest.MonkeyPatch) -> None:
    """Go on as if nobody had cancelled."""
    patch.setattr(Delivery, "_obey", lambda self, controls: self.stopped is None)


def started_skipped(patch: pytest.MonkeyPatch) -> None:
    """Call a step that runs at most once without saying so first."""
    from pyrula_core.context import Context

    async def silent(self: Any, *args: Any) -> None: ...

    patch.setattr(Context, "_announce", silent)


class NotifyTrusted(SimWorker):
    """Looks only when it was told to."""

    async def _work(self) -> None:
        with self._listening():
            while not self._stopping:
                self._wake.clear()
                if not await self._fill():
                    await self._wake.wait()


KILLS = [
    Mutant("no fence", "linear", "lease_stolen@4:50", store=NoFence),
    Mutant("no seq check", "signals", "", store=NoSeqCheck, world={"latency": 0.3}),
    Mutant("result shown before append", "linear", "lost@4", shown_before_append,
           world={"latency": 0.3}),
    Mutant("unknown treated as success", "linear", "lost@4", unknown_is_success),
    Mutant("unknown treated as failure", "linear", "lost@4", unknown_is_failure),
    Mutant("blind retry", "linear", "applied_unknown@4", blind_retry),
    Mutant("epoch reset", "linear", "crash_after@4", store=EpochReset),
    Mutant("started skipped", "saga", "crash_before@4", started_skipped),
    Mutant("terminal not checked", "linear", "", store=TerminalNotChecked,
           world={"signals": [("late", 1)]}),
    Mutant("crc not checked", "linear", "crash_after@4,bit_flip@4", crc_not_checked),
    Mutant("cancel swallowed", "cancelled", "", cancel_swallowed),
    Mutant("notify trusted", "timers", "", world={"worker_type": NotifyTrusted}),
]  # fmt: skip
