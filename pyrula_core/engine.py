"""Takes a claimed run through one attempt and records how it ended.

Owns the order of things around an attempt: history, budgets, controls, execution, the last append.
Only the engine and what it calls bring user code and a store together.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from pyrula_core.attempt import Attempt
from pyrula_core.body import BodyExecutor
from pyrula_core.children import Children, outcome_for_parent
from pyrula_core.clock import SystemClock, SystemEntropy
from pyrula_core.closing import owner_budget_spent, record, store_budget_spent, unreadable
from pyrula_core.codec import encode
from pyrula_core.endings import (
    Cancelled,
    Continued,
    Ending,
    Failed,
    StoodDown,
    Waiting,
)
from pyrula_core.errors import (
    CallerError,
    EventRefused,
    JournalError,
    LeaseLost,
    PayloadTooLarge,
    PyrulaError,
    StoreError,
    StoreUnavailable,
)
from pyrula_core.events import Event, EventType
from pyrula_core.failure import capture
from pyrula_core.history import read_history
from pyrula_core.lease import LeaseKeeper, shared_keeper
from pyrula_core.machine import RunState, fold, open_children
from pyrula_core.model import RunKey, RunRow, RunStatus, derived_run_id
from pyrula_core.owners import is_dead, this_process
from pyrula_core.ports import (
    Claim,
    Claimed,
    Clock,
    Create,
    Entropy,
    NotClaimable,
    Patch,
    Post,
    Store,
)
from pyrula_core.registry import REGISTRY, Executor, Registry

__all__ = ["Engine", "lease_ttl_s", "orphan_budget"]

log = logging.getLogger("pyrula.engine")

lease_ttl_s: Final = 30.0
orphan_budget: Final = 3
CHAIN: Final = re.compile(r"(.*):c(\d{1,9})")
store_budget: Final = 20
mend_wait_s: Final = 5.0


@dataclass(frozen=True, slots=True)
class Engine:
    """Drives runs of one store in this process.

    ``owner`` names this process in leases, ``lease_ttl`` is in seconds. ``max_retries`` is how
    often a run may lose its owner, and ``max_store_requeues`` its store, without progress in
    between before it fails. ``attempts`` holds what is being driven; ``forsaken`` the owners under
    which attempts of this process ended without giving their lease back, and why.
    """

    store: Store
    registry: Registry = REGISTRY
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    keeper: LeaseKeeper | None = field(default_factory=shared_keeper)
    owner: str = field(default_factory=this_process)
    lease_ttl: float = lease_ttl_s
    max_retries: int = orphan_budget
    max_store_requeues: int = store_budget
    attempts: set[Attempt] = field(default_factory=set)
    forsaken: dict[str, str] = field(default_factory=dict)
    _claims: Iterator[int] = field(default_factory=itertools.count)

    async def claim(self, key: RunKey) -> Claimed | NotClaimable:
        """Try to become the owner of one run; one whose owner is known to be dead is taken over."""
        answer = await self.store.call(self.claim_op(key=key))
        if isinstance(answer, Claimed) or answer.row is None:
            return answer
        held_by = answer.row.owner
        if answer.row.status is not RunStatus.RUNNING or held_by is None:
            return answer
        reason = self.forsaken.get(held_by)
        if reason is None and not is_dead(held_by):
            return answer
        takeover = replace(self.claim_op(key, reason or "owner_gone"), dead_owner=held_by)
        answer = await self.store.call(takeover)
        if isinstance(answer, Claimed):
            self.forsaken.pop(held_by, None)
        return answer

    def claim_op(self, key: RunKey | None = None, reason: str = "owner_gone") -> Claim:
        """Return the operation that claims ``key``, or any run this process can serve.

        ``reason`` is what is recorded when the former owner had not given the run back.
        """
        now = self.clock.time()
        token, at, place = self.owner.partition("@")
        # Every claim has an owner of its own, so that this process can tell its attempts apart.
        owner = f"{token}.{next(self._claims)}{at}{place}"
        claimed = Event(EventType.RUN_CLAIMED, {"owner": owner}, at=now)
        orphaned = Event(EventType.RUN_REQUEUED, {"reason": reason}, at=now)
        return Claim(
            owner=owner,
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
        attempt = Attempt(self.store, row, clock=self.clock, lease_ttl=self.lease_ttl)
        self.attempts.add(attempt)
        if self.keeper is not None:
            self.keeper.keep(attempt)
        try:
            history = await read_history(self.store, row.key)
            ending = await self._attempt(attempt, history, fold(history), executor)
            ending = await self._conclude(attempt, ending)
            await self._tell_relatives(row.key, history[0], ending)
        except JournalError as error:
            await self._hand_back(attempt, error.code)
            raise
        except asyncio.CancelledError:
            await self._hand_back(attempt, "drained")
            raise
        finally:
            self.attempts.discard(attempt)
            if self.keeper is not None:
                self.keeper.drop(attempt)
            if not attempt.released and row.owner is not None:
                lost_store = isinstance(attempt.failure, StoreUnavailable)
                self.forsaken[row.owner] = "store_unavailable" if lost_store else "owner_gone"
        return ending

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
            return owner_budget_spent(attempt.key, lost)
        outages = state.requeues.get("store_unavailable", 0)
        if outages > self.max_store_requeues:
            return store_budget_spent(attempt.key, outages)
        definition = self.registry.find(attempt.key.name, attempt.row.version)
        if definition is None:
            return StoodDown(self.registry_error(attempt.row))
        children = Children(self, attempt.key)
        chosen = executor or definition.executor
        if chosen is None:
            chosen = BodyExecutor(definition, self.entropy, children)
        return await chosen.execute(attempt, history)

    async def _tell_relatives(self, key: RunKey, created: Event, ending: Ending) -> None:
        """Post a child's end to its parent, and end the children of a parent that has ended."""
        if isinstance(ending, (Waiting, StoodDown, Continued)):
            return
        history = await read_history(self.store, key)
        parent = created.data.get("parent")
        if parent is not None:
            event = outcome_for_parent(history[-1], parent["key"]).stamped(self.clock.time())
            target = RunKey(parent["name"], parent["run_id"])
            guard = f"child:{key}"
            await self.store.call(Post(target, (encode(event),), wake=True, guard=guard))
        children = Children(self, key)
        for child in open_children(history, policy="cancel"):
            await children.cancel(child, f"its parent {key} has ended")

    async def end_unreadable(self, row: RunRow, error: PyrulaError, tries: int) -> None:
        """End a claimed run whose journal cannot be replayed, so that nobody tries it for ever."""
        attempt = Attempt(self.store, row, clock=self.clock, lease_ttl=self.lease_ttl)
        await record(attempt, unreadable(error, tries))

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
                if isinstance(ending, StoodDown) and isinstance(ending.error, EventRefused):
                    return await self._refused(attempt, ending.error)
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
            return await self._refused(attempt, error)
        except PayloadTooLarge as error:
            failure = capture(error)
            return await self._conclude(
                attempt, Failed(error.code, failure.to_json(), None, {}, (), error)
            )

    async def _refused(self, attempt: Attempt, error: EventRefused) -> Ending:
        """End a run whose events the store will never take, while the run is still ours."""
        again = Attempt(self.store, attempt.row, clock=self.clock, lease_ttl=self.lease_ttl)
        again.seq = attempt.seq
        detail = {"reason": error.message}
        ending = Failed(error.code, capture(error).to_json(), None, detail, (), error)
        try:
            await record(again, ending)
        except StoreError as late:
            return StoodDown(late)
        attempt.released = again.released
        return ending

    async def _continue(self, attempt: Attempt, ending: Continued) -> Continued:
        """Create the next run of the chain, before this one ends: a crash loses neither."""
        row = attempt.row
        link = CHAIN.fullmatch(row.key.run_id)
        first, number = (link[1], int(link[2])) if link else (row.key.run_id, 0)
        run_id = derived_run_id(first, f":c{number + 1}")
        fields = {"kind": row.kind, "version": row.version, "continued_from": row.key.run_id}
        parent = (await read_history(self.store, row.key))[0].data.get("parent")
        if parent is not None:
            fields["parent"] = parent
        created = Event(EventType.RUN_CREATED, fields, ending.input, self.clock.time())
        key = RunKey(row.key.name, run_id)
        await self.store.call(
            Create(key, row.kind, row.version, run_id, (encode(created),), parent=row.parent)
        )
        return replace(ending, run_id=run_id)

    async def _stand_down(self, attempt: Attempt, error: BaseException | None) -> None:
        code = error.code if isinstance(error, PyrulaError) else "abandoned"
        log.warning("attempt_abandoned run=%s code=%s", attempt.key, code)
        if attempt.failure is None:
            # What only a caller can mend is not tried again at once by the next worker.
            later = self.clock.time() + mend_wait_s if isinstance(error, CallerError) else None
            await self._hand_back(attempt, str(code), wake_at=later)

    async def _hand_back(self, attempt: Attempt, reason: str, wake_at: float | None = None) -> None:
        """Give the lease back so that another attempt can start at once; best effort."""
        if attempt.failure is not None or attempt.released:
            return
        event = Event(EventType.RUN_REQUEUED, {"reason": reason})
        status = RunStatus.QUEUED if wake_at is None else RunStatus.WAITING
        patch = Patch(status=status, release=True, wake_at=wake_at)
        future = attempt.submit([event], patch=patch)
        try:
            await asyncio.shield(asyncio.wrap_future(future))
        except PyrulaError as error:
            log.warning("hand_back_failed run=%s code=%s", attempt.key, error.code)
