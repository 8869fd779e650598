"""Takes a claimed run through one attempt and records how it ended.

Owns the order of things around an attempt: history, budgets, controls, execution, the last append.
Only the engine and what it calls bring user code and a store together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyrula_core.attempt import Ack, Attempt
from pyrula_core.body import BodyExecutor
from pyrula_core.clock import SystemClock, SystemEntropy
from pyrula_core.codec import decode, encode
from pyrula_core.endings import (
    Cancelled,
    Completed,
    Continued,
    Ending,
    Failed,
    StoodDown,
    Waiting,
)
from pyrula_core.errors import EventRefused, JournalError, LeaseLost, PyrulaError, StoreUnavailable
from pyrula_core.events import Event, EventType
from pyrula_core.failure import capture
from pyrula_core.lease import LeaseKeeper, shared_keeper
from pyrula_core.machine import RunState, fold
from pyrula_core.model import RunKey, RunRow, RunStatus
from pyrula_core.owners import is_dead, this_process
from pyrula_core.ports import (
    Claim,
    Claimed,
    Clock,
    Create,
    Entropy,
    NotClaimable,
    Patch,
    ReadEvents,
    Record,
    RecordRange,
    Store,
)
from pyrula_core.registry import REGISTRY, Executor, Registry

__all__ = ["Engine", "read_history"]

log = logging.getLogger("pyrula.engine")

lease_ttl_s: Final = 30.0
orphan_budget: Final = 3


@dataclass(frozen=True, slots=True)
class Engine:
    """Drives runs of one store in this process.

    ``owner`` names this process in leases, ``lease_ttl`` is in seconds, ``max_retries`` is how
    often in a row a run may lose its owner without progress before it fails.
    """

    store: Store
    registry: Registry = REGISTRY
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    keeper: LeaseKeeper | None = field(default_factory=shared_keeper)
    owner: str = field(default_factory=this_process)
    lease_ttl: float = lease_ttl_s
    max_retries: int = orphan_budget

    async def claim(self, key: RunKey) -> Claimed | NotClaimable:
        """Try to become the owner of one run; one whose owner is known to be dead is taken over."""
        answer = await self.store.call(self.claim_op(key=key))
        if isinstance(answer, Claimed) or answer.row is None:
            return answer
        held_by = answer.row.owner
        if answer.row.status is not RunStatus.RUNNING or held_by is None or not is_dead(held_by):
            return answer
        return await self.store.call(replace(self.claim_op(key=key), dead_owner=held_by))

    def claim_op(self, key: RunKey | None = None) -> Claim:
        """Return the operation that claims ``key``, or any run this process can serve."""
        now = self.clock.time()
        claimed = Event(EventType.RUN_CLAIMED, {"owner": self.owner}, at=now)
        orphaned = Event(EventType.RUN_REQUEUED, {"reason": "owner_gone"}, at=now)
        return Claim(
            owner=self.owner,
            ttl=self.lease_ttl,
            claimed=encode(claimed),
            orphaned=encode(orphaned),
            key=key,
            serves=self.registry.served(),
        )

    async def drive(self, row: RunRow, executor: Executor | None = None) -> Ending:
        """Run a claimed run as far as it goes; returns how the attempt ended, once recorded.

        ``executor`` takes the place of the definition's own for this attempt.

        Raises JournalError for a damaged journal; nothing was executed then.
        """
        history = await read_history(self.store, row.key)
        state = fold(history)
        attempt = Attempt(self.store, row, clock=self.clock, lease_ttl=self.lease_ttl)
        attempt.seq = state.seq
        if self.keeper is not None:
            self.keeper.keep(attempt)
        try:
            ending = await self._attempt(attempt, history, state, executor)
            return await self._conclude(attempt, ending)
        except asyncio.CancelledError:
            await self._hand_back(attempt, "drained")
            raise
        finally:
            if self.keeper is not None:
                self.keeper.drop(attempt)

    async def _attempt(
        self,
        attempt: Attempt,
        history: list[Event],
        state: RunState,
        executor: Executor | None,
    ) -> Ending:
        """Execute, unless the run was cancelled or paused or has used up its budget."""
        if attempt.controls.cancel:
            return Cancelled()
        if attempt.controls.pause:
            return Waiting(paused=True)
        lost = state.requeues.get("owner_gone", 0)
        if lost > self.max_retries:
            return worn_out(attempt.key, lost)
        definition = self.registry.find(attempt.key.name, attempt.row.version)
        if definition is None:
            return StoodDown(self.registry_error(attempt.row))
        chosen = executor or definition.executor or BodyExecutor(definition, self.entropy)
        return await chosen.execute(attempt, history)

    def registry_error(self, row: RunRow) -> PyrulaError:
        """Return the error for a version that this process does not have."""
        current = self.registry.current(row.key.name)
        return LeaseLost(
            f"run {row.key} was started on version {row.version!r}, and this process has "
            f"{current.version!r}",
            hint="Run it with a process that still registers that version",
        )

    async def _conclude(self, attempt: Attempt, ending: Ending) -> Ending:
        """Record the ending; a cancel that came meanwhile wins over everything but a lost lease."""
        try:
            if isinstance(ending, Continued):
                ending = await self._continue(attempt, ending)
            while True:
                if isinstance(ending, StoodDown):
                    await self._stand_down(attempt, ending.error)
                    return ending
                if ending == Waiting():
                    return ending
                ack = await record(attempt, ending)
                if ack.written:
                    return ending
                if ack.controls.cancel and not isinstance(ending, Cancelled):
                    ending = Cancelled()
        except (LeaseLost, StoreUnavailable, JournalError) as error:
            log.warning("attempt_abandoned run=%s code=%s", attempt.key, error.code)
            return StoodDown(error)
        except EventRefused as error:
            return StoodDown(error)

    async def _continue(self, attempt: Attempt, ending: Continued) -> Continued:
        """Create the next run of the chain, before this one ends: a crash loses neither."""
        row = attempt.row
        first, _, number = row.key.run_id.partition(":c")
        run_id = f"{first}:c{int(number or 0) + 1}"
        fields = {"kind": row.kind, "version": row.version, "continued_from": row.key.run_id}
        created = Event(EventType.RUN_CREATED, fields, ending.input, self.clock.time())
        key = RunKey(row.key.name, run_id)
        await self.store.call(
            Create(key, row.kind, row.version, run_id, (encode(created),), parent=row.parent)
        )
        return replace(ending, run_id=run_id)

    async def _stand_down(self, attempt: Attempt, error: BaseException | None) -> None:
        code = getattr(error, "code", type(error).__name__)
        log.warning("attempt_abandoned run=%s code=%s", attempt.key, code)
        if attempt.failure is None:
            await self._hand_back(attempt, str(code))

    async def _hand_back(self, attempt: Attempt, reason: str) -> None:
        """Give the lease back so that another attempt can start at once; best effort."""
        if attempt.failure is not None or attempt.released:
            return
        event = Event(EventType.RUN_REQUEUED, {"reason": reason})
        patch = Patch(status=RunStatus.QUEUED, release=True)
        future = attempt.submit([event], patch=patch)
        try:
            await asyncio.shield(asyncio.wrap_future(future))
        except PyrulaError as error:
            log.warning("hand_back_failed run=%s code=%s", attempt.key, error.code)


def worn_out(key: RunKey, lost: int) -> Failed:
    """Return the ending of a run whose owners keep dying without getting anywhere."""
    error = PyrulaError(
        f"run {key} lost its owner {lost} times without recording a step in between",
        hint="Its code seems to kill the process; look at the step that follows the last recorded",
        code="max_retries",
    )
    return Failed(error.code, capture(error).to_json(), None, {"owner_gone": lost}, (), error)


async def record(attempt: Attempt, ending: Ending) -> Ack:
    """Append a run's last events, giving way to what others added in the meantime."""
    event, patch, records = closing(ending)
    before: Sequence[Event] = getattr(ending, "events", ())
    events = [*before, event] if event is not None else list(before)
    future = attempt.submit(events, patch=patch, records=records, unless_foreign=True)
    return future.result() if future.done() else await asyncio.wrap_future(future)


def closing(
    ending: Ending,
) -> tuple[Event | None, Patch, Sequence[Record | RecordRange]]:
    """Return the event, the row's change and the records that an ending stands for."""
    match ending:
        case Completed(output, _, records):
            patch = Patch(status=RunStatus.COMPLETE, release=True)
            return Event(EventType.RUN_COMPLETE, {}, output), patch, records
        case Failed(code, failure, user_code, detail):
            fields: dict[str, Any] = {"code": code, "failure": failure, "detail": detail}
            if user_code is not None:
                fields["user_code"] = user_code
            patch = Patch(RunStatus.ERROR, release=True, error_code=code, user_code=user_code)
            return Event(EventType.RUN_ERROR, fields), patch, ()
        case Cancelled(_, records):
            patch = Patch(RunStatus.CANCELLED, release=True, error_code="cancelled")
            return Event(EventType.RUN_CANCELLED), patch, records
        case Continued(_, _, run_id):
            patch = Patch(RunStatus.CONTINUED, release=True)
            return Event(EventType.RUN_CONTINUED, {"run_id": run_id}), patch, ()
        case Waiting():
            return None, Patch(status=RunStatus.QUEUED, release=True), ()
        case StoodDown():
            raise AssertionError("an attempt that stood down records nothing")


async def read_history(store: Store, key: RunKey, after: int = 0) -> list[Event]:
    """Return a run's events after ``after``; raises JournalError when one is damaged."""
    frames = await store.call(ReadEvents(key, after))
    return [decode(frame, key=key, seq=seq) for seq, frame in frames]
