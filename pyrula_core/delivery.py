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
from collections.abc import Sequence
from typing import Final

from pyrula_core.attempt import Ack, Attempt
from pyrula_core.control import Abandoned, CancelRequested, PauseRequested, Suspended
from pyrula_core.errors import PyrulaError
from pyrula_core.events import Event, EventType
from pyrula_core.model import Controls
from pyrula_core.ports import Patch
from pyrula_core.replay import SUBSTEP, Recording, left_over
from pyrula_core.traffic import FLUSH, Traffic

__all__ = ["Delivery"]

# Event-loop turns that a body gets to act on one completion before the next is delivered, where
# several calls are pending. The same number live and on replay makes races come out the same.
settle_turns: Final = 32

# How long a replaying body may leave a recorded completion unasked for while it waits for another.
replay_stall_s: Final = 30.0

# A timer that is due within this time is waited for in place; a later one frees the worker.
linger_s: Final = 5.0
linger_look_s: Final = 0.2


class Delivery(Traffic):
    """The traffic between one body and its journal, with the pump that moves it."""

    def __init__(self, attempt: Attempt, recording: Recording) -> None:
        super().__init__(attempt, recording)
        self._pump: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to deliver."""
        self._pass_signals()
        self._pump = self._loop.create_task(self._run(), name=f"pyrula {self.attempt.key}")

    async def steps_ended(self, timeout: float | None = None) -> None:
        """Wait until no step is running, ``timeout`` seconds at most."""
        if self._working:
            self._quiet = self._loop.create_future()
            await asyncio.wait({self._quiet}, timeout=timeout)

    async def commit_alone(self, key: str, event: Event) -> Event:
        """Record an event for the only task of a body: there is no order to keep with others.

        The caller writes it itself, which saves two turns of the event loop.
        """
        if self._outbox or self.pending or not self.live or self.finished:
            return await self.commit(key, event)
        self.check_stopped()
        event = event.stamped(self.attempt.clock.time())
        unwritten, self._held = self._held, []
        self._working += 1
        try:
            ack = await self._append([*unwritten, event])
            if not await self._take(ack):
                self.check_stopped()
        except PyrulaError as error:
            self.fail(error)
            raise Abandoned from None
        finally:
            self._working -= 1
        self.now = max(self.now, event.at)
        return event

    async def finish(self) -> list[Event]:
        """End the traffic; returns failures the body saw that are not written yet.

        What steps have done by now is recorded first, whatever stopped the run, as long as it is
        still ours.
        """
        self.finished = True
        self.poke()
        if self._pump is not None:
            await self._pump
        if self._outbox and isinstance(self.stopped, (PauseRequested, CancelRequested)):
            kept = [event for key, event, held in self._outbox if not held and FLUSH not in key]
            await self._append([*self._held, *kept])
            self._held = []
        if self.stopped is None and self.fatal is None:
            missed = self.recording.never_requested(self.position)
            if missed is not None:
                self.fatal = left_over(missed, None, ended=True)
        return self._held

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
                elif self._waits.intents() or self._waits.next_due() is not None:
                    await self._keep_waits()
                else:
                    await self._poked()
        except Exception as error:  # noqa: BLE001
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
        gate, _ = self._gate.popleft()
        if not gate.done():
            gate.set_result(None)

    async def _replay_next(self) -> None:
        key, event = self.recording.ordered[self.position]
        if event.type is EventType.UPDATE_REQUESTED:
            self.on_update(event)
        elif key is None:
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
        blocked = bool(self._waiters or self._gate) and not self.patient
        if await self._poked(replay_stall_s if blocked else None):
            return
        for _ in range(settle_turns):
            await asyncio.sleep(0)
        if key not in self._waiters and (self._waiters or self._gate) and not self.finished:
            held_back = self._gate[0][1] if self._gate else None
            raise left_over(event, held_back)

    def _give(self, key: str, event: Event) -> None:
        self.now = max(self.now, event.at)
        future = self._waiters.pop(key, None)
        self._waits.drop(key)
        if future is not None and not future.done():
            self._expected.discard(future)
            future.set_result(event)

    def _give_signal(self, event: Event) -> None:
        reader = self._signals.deliver(event)
        if reader is not None:
            self._give(reader, event)

    async def _write(self) -> None:
        """Append what is in the outbox, then deliver it in order."""
        now = self.attempt.clock.time()
        batch = [(key, event.stamped(now), held) for key, event, held in self._outbox]
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
        elif event.type is EventType.UPDATE_REQUESTED:
            self.on_update(event)
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
        elif controls.pause or self.attempt.draining:
            self.stop(PauseRequested())
        return self.stopped is None

    # --- waiting --------------------------------------------------------------------------------

    def _only_waits(self) -> bool:
        """Tell whether nothing can happen in this process by itself."""
        waited = {self._waiters.get(name) for name in self._waits.by_key}
        return bool(self._expected) and self.pending == len(self._expected & waited)

    async def _idle(self) -> None:
        """Wait in place for what is due soon; suspend the run for anything else."""
        before = (self.pending, len(self._waits.by_key))
        await self._settle()
        if (self.pending, len(self._waits.by_key)) != before or self._outbox or self.stopped:
            return
        due, now = self._waits.next_due(), self.attempt.clock.time()
        if self.local_work():
            due = min(due or now + linger_s, now + linger_s)
        if due is None or due - now > linger_s:
            await self._suspend(self._waits.wake_at(now))
        elif due > now:
            await self._linger(due - now)
        else:
            self._fire(now)

    async def _keep_waits(self) -> None:
        """Record what is waited for beside running steps, and fire the timers that fall due."""
        if self._waits.intents():
            ack = await self._append([*self._held, *self._waits.intents()])
            self._written()
            await self._take(ack)
            return
        due, now = self._waits.next_due() or 0.0, self.attempt.clock.time()
        if due <= now:
            self._fire(now)
        else:
            await self._poked(min(due - now, linger_look_s))

    def _fire(self, now: float) -> None:
        """Complete every wait that is due."""
        for wait in self._waits.take_due(now):
            if wait.on_due is None:
                self._give(wait.key, Event(EventType.TIMER_FIRED, {"key": wait.key}, at=now))
            else:
                self._outbox.append((wait.key, wait.on_due, False))

    def _written(self) -> None:
        self._held = []
        self._waits.written()

    async def _linger(self, seconds: float) -> None:
        """Wait in this process: what is waited for is recorded, so a crash loses nothing.

        The append, empty or not, also tells what others added before the subscription began.
        """
        unsubscribe = self.attempt.store.subscribe(self.attempt.key, self._on_news)
        try:
            ack = await self._append([*self._held, *self._waits.intents()])
            self._written()
            if await self._take(ack) and not ack.foreign:
                # Not for all of it at once: the store's clock need not be this loop's.
                await self._poked(min(seconds, linger_look_s))
        finally:
            unsubscribe()

    async def _suspend(self, due: float | None) -> None:
        """Record what is waited for and give the lease back, in one append."""
        patch = Patch(status=self._waits.status(), release=True, wake_at=due)
        events = [*self._held, *self._waits.intents()]
        ack = await self._append(events, patch=patch, unless_foreign=True)
        if not ack.written:
            await self._take(ack)
            return
        self._written()
        self.stop(Suspended())
