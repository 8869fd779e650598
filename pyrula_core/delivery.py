"""Hands completions to a body in journal order, and puts new ones into the journal first.

Owns what is pending: calls that wait for a completion, new work that waits for the replay to end,
results on their way to the store. One task (the pump) does everything in order, so that a replay
and a first run deliver the same things in the same order. Runs on one event loop; must never run
user code itself.

Two rules carry most of the promises:

* Nothing new starts until the journal has been matched to its end (P7).
* A result is seen by the body only after the store has acknowledged it (P1). A failure is the
  exception: it is seen at once and written before anything new starts, since it may end the run
  and is not recorded in that case.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrula_core.attempt import Ack, Attempt
from pyrula_core.control import Abandoned, CancelRequested, PauseRequested, RunStop, Suspended
from pyrula_core.errors import PyrulaError
from pyrula_core.events import Event, EventType
from pyrula_core.model import Controls, RunStatus
from pyrula_core.ports import Patch
from pyrula_core.replay import SUBSTEP, Recording, Request, left_over

__all__ = ["Delivery", "Wait"]

# Event-loop turns that a body gets to act on one completion before the next is delivered, where
# several calls are pending. The same number live and on replay makes races come out the same.
settle_turns: Final = 32
FLUSH: Final = "!flush"

# How long a replaying body may leave a recorded completion unasked for while it waits for another.
replay_stall_s: Final = 2.0

# A timer that is due within this time is waited for in place; a later one frees the worker.
linger_s: Final = 5.0


@dataclass(slots=True)
class Wait:
    """A call that something outside will complete.

    ``intent`` is the event that says so, until it has been written; ``due`` (store's clock) is
    when it completes by itself, with ``on_due`` as its completion (None: nothing is recorded).
    """

    key: str
    kind: str
    intent: Event | None = None
    due: float | None = None
    on_due: Event | None = None


class Delivery:
    """The traffic between one body and its journal."""

    def __init__(self, attempt: Attempt, recording: Recording) -> None:
        self.attempt = attempt
        self.recording = recording
        self.position = 0
        self.now = attempt.row.created_at
        self.fatal: Exception | None = None
        self.stopped: RunStop | None = None
        self.suspended = False
        self.finished = False
        self._working = 0
        self._expected: set[asyncio.Future[Event]] = set()
        self._waiters: dict[str, asyncio.Future[Event]] = {}
        self._given_up: set[str] = set()
        self._gate: deque[asyncio.Future[None]] = deque()
        self._outbox: deque[tuple[str, Event, bool]] = deque()
        self._held: list[Event] = []
        self._flushes = 0
        self._waits: dict[str, Wait] = {}
        self._signals: dict[str, deque[Event]] = {}
        self._signal_waits: dict[str, deque[str]] = {}
        self._poke: asyncio.Future[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = self._loop.create_future()

    # --- the body's side ------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Durable calls that are under way: waiting, held back, or running."""
        return len(self._expected) + len(self._gate) + self._working

    @property
    def live(self) -> bool:
        """True once every recorded completion has been delivered."""
        return self.position >= len(self.recording.ordered)

    def start(self) -> None:
        """Begin to deliver."""
        self._pass_signals()
        self._pump = self._loop.create_task(self._run(), name=f"pyrula {self.attempt.key}")

    async def serve(self, request: Request) -> Event | None:
        """Return the recorded completion of a request, or None when it must be done now.

        Raises NondeterminismError when the journal holds something else, RunStop when the run has
        been stopped.
        """
        self.check_stopped()
        try:
            recorded = self.recording.request(request)
        except PyrulaError as error:
            self.fail(error)
            raise
        if SUBSTEP in request.key:
            return self.recording.substeps.get(request.key)
        if recorded is None:
            await self._to_live()
            return None
        if self.pending == 0 and self._head() == request.key:
            self._advance()
            self.now = recorded.at
            return recorded
        return await self.expect(request.key)

    async def expect(self, key: str, *also: str) -> Event:
        """Wait until a completion for ``key`` (or one of ``also``) is delivered; return it."""
        future: asyncio.Future[Event] = self._loop.create_future()
        for name in (key, *also):
            self._waiters[name] = future
        self._expected.add(future)
        self.poke()
        try:
            return await future
        finally:
            self._expected.discard(future)
            for name in (key, *also):
                if self._waiters.pop(name, None) is not None:
                    self._given_up.add(name)
                self._waits.pop(name, None)
            self.poke()

    async def commit(self, key: str, event: Event, *, held: bool = False) -> Event:
        """Record an event and return it once it is durable and its turn has come.

        ``held`` marks a failure: delivered in turn, written with the next durable event.
        """
        self.check_stopped()
        self._outbox.append((key, event, held))
        return await self.expect(key)

    async def wait(self, *waits: Wait) -> Event:
        """Wait for the first of ``waits`` to complete; the run may be suspended meanwhile."""
        self.check_stopped()
        for wait in waits:
            self._waits[wait.key] = wait
        return await self.expect(*(wait.key for wait in waits))

    async def signal(self, name: str, request: Request, *timeout: Wait) -> Event:
        """Return the next unread signal of that name, or the completion of ``timeout``."""
        self.check_stopped()
        self.recording.request(request)
        unread = self._signals.get(name)
        if unread:
            return unread.popleft()
        self._signal_waits.setdefault(name, deque()).append(request.key)
        try:
            return await self.wait(Wait(request.key, "signal"), *timeout)
        finally:
            queue = self._signal_waits[name]
            if request.key in queue:
                queue.remove(request.key)

    def working(self, change: int) -> None:
        """Count a step that starts (+1) or stops (-1) running in this process."""
        self._working += change
        self.poke()

    def check_stopped(self) -> None:
        """Raise the reason when the run has been stopped: no durable call may follow."""
        if self.stopped is not None:
            raise type(self.stopped)
        if self.finished:
            raise Abandoned

    def check_held(self) -> None:
        """Stop the body when its lease is gone: no effect may follow."""
        try:
            self.attempt.check_held()
        except PyrulaError as error:
            self.fail(error)
            raise Abandoned from None

    async def _to_live(self) -> None:
        """Wait until the journal has been matched to its end and failures seen are written."""
        if not self.live:
            gate: asyncio.Future[None] = self._loop.create_future()
            self._gate.append(gate)
            self.poke()
            await gate
        if self._held:
            # Nothing to record but what is held; the key only has to differ from every other.
            self._flushes += 1
            await self.commit(f"{FLUSH}{self._flushes}", Event(EventType.STEP_ERROR))
        self.check_stopped()

    # --- the engine's side ----------------------------------------------------------------------

    def stop(self, reason: RunStop) -> None:
        """Unwind the body: every pending durable call raises ``reason``'s class."""
        if self.stopped is None:
            self.stopped = reason
        kind = type(self.stopped)
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_exception(kind())
        for gate in self._gate:
            if not gate.done():
                gate.set_exception(kind())
        self._gate.clear()
        if not self.stopping.done():
            self.stopping.set_result(None)

    def fail(self, error: Exception) -> None:
        """Stop for good because of ``error``; the first one is kept."""
        self.fatal = self.fatal or error
        self.stop(Abandoned())

    async def finish(self) -> list[Event]:
        """End the traffic; returns failures the body saw that are not written yet."""
        self.finished = True
        self.poke()
        if self._pump is not None:
            await self._pump
        if self.stopped is None and self.fatal is None:
            missed = self.recording.never_requested(self.position)
            if missed is not None:
                self.fatal = left_over(missed, ended=True)
        return self._held

    def poke(self) -> None:
        """Let the pump look again."""
        if self._poke is not None and not self._poke.done():
            self._poke.set_result(None)

    def _on_news(self) -> None:
        """Somebody may have added to the journal; called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.poke)

    # --- the pump -------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self.finished and self.stopped is None:
                if self._outbox and self.live:
                    await self._write()
                elif not self.live:
                    await self._replay_next()
                elif self._gate:
                    self._open_gate()
                elif self._only_waits():
                    await self._idle()
                else:
                    await self._poked()
        except Exception as error:
            # Whatever goes wrong here, the body must not wait for ever for what will not come.
            self.fail(error)

    async def _poked(self, timeout: float | None = None) -> bool:
        """Wait until something changed; False when ``timeout`` seconds passed first."""
        self._poke = self._loop.create_future()
        try:
            await asyncio.wait_for(self._poke, timeout)
        except TimeoutError:
            return False
        finally:
            self._poke = None
        return True

    async def _settle(self) -> None:
        """Give the body its turns to act on what it was given, where others wait too."""
        if self.pending == 0:
            return
        for _ in range(settle_turns):
            await asyncio.sleep(0)

    def _open_gate(self) -> None:
        gate = self._gate.popleft()
        if not gate.done():
            gate.set_result(None)

    def _head(self) -> str | None:
        return None if self.live else self.recording.ordered[self.position][0]

    def _advance(self) -> None:
        self.position += 1
        self._pass_signals()
        if self.live:
            self.poke()

    def _pass_signals(self) -> None:
        """Put recorded signals that nobody waits for where a later call finds them."""
        while not self.live and self._head() is None:
            event = self.recording.ordered[self.position][1]
            if self._signal_waits.get(event.data.get("name", "")):
                return
            self._keep_signal(event)
            self.position += 1

    def _keep_signal(self, event: Event) -> None:
        if event.type is EventType.SIGNAL_RECEIVED:
            self._signals.setdefault(event.data["name"], deque()).append(event)

    async def _replay_next(self) -> None:
        key, event = self.recording.ordered[self.position]
        if key is None:
            self._give_signal(event)
        elif key in self._waiters:
            self._give(key, event)
        elif key not in self._given_up:
            await self._until_asked(key, event)
            return
        self._advance()
        await self._settle()

    async def _until_asked(self, key: str, event: Event) -> None:
        """Wait for the body to ask for the next recorded completion; it may never do so."""
        blocked = bool(self._waiters or self._gate)
        if await self._poked(replay_stall_s if blocked else None):
            return
        for _ in range(settle_turns):
            await asyncio.sleep(0)
        if key not in self._waiters and (self._waiters or self._gate) and not self.finished:
            raise left_over(event, ended=False)

    def _give(self, key: str, event: Event) -> None:
        self.now = max(self.now, event.at)
        future = self._waiters.pop(key, None)
        self._waits.pop(key, None)
        if future is not None and not future.done():
            self._expected.discard(future)
            future.set_result(event)

    def _give_signal(self, event: Event) -> None:
        waiting = self._signal_waits.get(event.data.get("name", ""))
        if waiting:
            self._give(waiting.popleft(), event)
        else:
            self._keep_signal(event)

    async def _write(self) -> None:
        """Append what is in the outbox, then deliver it in order."""
        batch = list(self._outbox)
        self._outbox.clear()
        last = max((n for n, (_, _, held) in enumerate(batch, start=1) if not held), default=0)
        fresh = [event for key, event, _ in batch[:last] if not key.startswith(FLUSH)]
        ack = None
        if last:
            ack = await self._append([*self._held, *fresh])
            self._held = []
        self._held += [event for _, event, _ in batch[last:]]
        if ack is not None and not await self._take(ack):
            return
        for key, event, _ in batch:
            if SUBSTEP in key:
                self.recording.substeps[key] = event
            self._give(key, event)
            await self._settle()

    async def _append(
        self, events: Sequence[Event], *, patch: Patch = Patch(), unless_foreign: bool = False
    ) -> Ack:
        future = self.attempt.submit(events, patch=patch, unless_foreign=unless_foreign)
        return future.result() if future.done() else await asyncio.wrap_future(future)

    async def _take(self, ack: Ack) -> bool:
        """Act on what an acknowledgement says of others; False when the run is to stop."""
        for event in ack.foreign:
            await self._take_foreign(event)
        return self._obey(ack.controls)

    async def _take_foreign(self, event: Event) -> None:
        if event.type is EventType.SIGNAL_RECEIVED:
            self._give_signal(event)
        else:
            key = self.recording.key_of(event)
            if key is None or key in self.recording.completed:
                return
            self.recording.completed[key] = event
            self._give(key, event)
        await self._settle()

    def _obey(self, controls: Controls) -> bool:
        if controls.cancel:
            self.stop(CancelRequested())
        elif controls.pause:
            self.stop(PauseRequested())
        return self.stopped is None

    # --- waiting --------------------------------------------------------------------------------

    def _only_waits(self) -> bool:
        """True when nothing can happen in this process by itself."""
        waited = {self._waiters.get(name) for name in self._waits}
        return bool(self._waits) and self.pending == len(self._expected & waited)

    async def _idle(self) -> None:
        """Wait in place for what is due soon; suspend the run for anything else."""
        before = (self.pending, len(self._waits))
        await self._settle()
        if (self.pending, len(self._waits)) != before or self._outbox or self.stopped:
            return
        due = min((w.due for w in self._waits.values() if w.due is not None), default=None)
        now = self.attempt.clock.time()
        if due is not None and due <= now:
            self._fire(now)
        elif due is not None and due - now <= linger_s:
            await self._linger(due - now)
        else:
            await self._suspend(due)

    def _fire(self, now: float) -> None:
        """Complete every wait that is due, in the order in which they fall due."""
        ready = [w for w in self._waits.values() if w.due is not None and w.due <= now]
        for wait in sorted(ready, key=lambda wait: (wait.due or 0.0, wait.key)):
            del self._waits[wait.key]
            if wait.on_due is None:
                self._give(wait.key, Event(EventType.TIMER_FIRED, {"key": wait.key}, at=now))
            else:
                self._outbox.append((wait.key, wait.on_due, False))

    def _unwritten(self) -> list[Event]:
        """Return failures and intents that are to be written before the run waits."""
        intents = [w.intent for w in self._waits.values() if w.intent is not None]
        return [*self._held, *intents]

    def _written(self) -> None:
        self._held = []
        for wait in self._waits.values():
            wait.intent = None

    async def _linger(self, seconds: float) -> None:
        """Wait in this process: what is waited for is recorded, so a crash loses nothing.

        The append, empty or not, also tells what others added before the subscription began.
        """
        unsubscribe = self.attempt.store.subscribe(self.attempt.key, self._on_news)
        try:
            ack = await self._append(self._unwritten())
            self._written()
            if await self._take(ack) and not ack.foreign:
                await self._poked(seconds)
        finally:
            unsubscribe()

    async def _suspend(self, due: float | None) -> None:
        """Record what is waited for and give the lease back, in one append."""
        kinds = {wait.kind for wait in self._waits.values()}
        status = RunStatus.INTERRUPTED if "interrupt" in kinds else RunStatus.WAITING
        patch = Patch(status=status, release=True, wake_at=due)
        ack = await self._append(self._unwritten(), patch=patch, unless_foreign=True)
        if not ack.written:
            await self._take(ack)
            return
        self._written()
        self.suspended = True
        self.stop(Suspended())
