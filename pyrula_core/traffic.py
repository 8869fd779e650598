"""What is under way between a body and its journal: the body's side of it.

Owns the durable calls that are pending: those that wait for a completion, those held back until
the replay has ended, results on their way to the store. ``Delivery`` moves them along. Runs on one
event loop; must never run user code, and never touch a store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from pyrula_core.attempt import Attempt
from pyrula_core.control import Abandoned, RunStop
from pyrula_core.errors import PyrulaError
from pyrula_core.events import Event, EventType
from pyrula_core.replay import SUBSTEP, Recording, Request
from pyrula_core.waits import SignalBox, Wait, WaitSet

__all__ = ["FLUSH", "Traffic"]

FLUSH = "!flush"
"""Starts the key of an entry that only has the failures written that are held."""


class Traffic:
    """What is under way between one body and its journal."""

    def __init__(self, attempt: Attempt, recording: Recording) -> None:
        self.attempt = attempt
        self.recording = recording
        self.position = 0
        self.now = attempt.row.created_at
        self.fatal: Exception | None = None
        self.stopped: RunStop | None = None
        self.finished = False
        self.early_updates: list[Event] = []
        self._working = 0
        self._expected: set[asyncio.Future[Event]] = set()
        self._waiters: dict[str, asyncio.Future[Event]] = {}
        self._given_up: set[str] = set()
        self._gate: deque[tuple[asyncio.Future[None], Request]] = deque()
        self.patient = 0
        self._outbox: deque[tuple[str, Event, bool]] = deque()
        self._held: list[Event] = []
        self._flushes = 0
        self._quiet: asyncio.Future[None] | None = None
        self._waits = WaitSet()
        self._signals = SignalBox()
        self.on_update: Callable[[Event], None] = self.early_updates.append
        self.local_work: Callable[[], bool] = bool
        self._poke: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = self._loop.create_future()

    @property
    def pending(self) -> int:
        """Durable calls that are under way: waiting, held back, or running."""
        return len(self._expected) + len(self._gate) + self._working

    @property
    def live(self) -> bool:
        """True once every recorded completion has been delivered."""
        return self.position >= len(self.recording.ordered)

    async def serve(self, request: Request, *, alone: bool = False) -> Event | None:
        """Return the recorded completion of a request, or None when it must be done now.

        ``alone`` says that no other task of the body could notice when this one is served: then it
        is served without a turn of the event loop.

        Raises NondeterminismError when the journal holds something else, RunStop when the run has
        been stopped.
        """
        recorded = self.note(request)
        if SUBSTEP in request.key:
            return self.recording.substeps.get(request.key)
        if recorded is None and request.key in self.recording.given_up:
            await self._until_given_up()
        if recorded is None:
            await self._to_live(request)
            return None
        if alone and self.pending == 0 and self._head() == request.key:
            self._advance()
            self.now = recorded.at
            return recorded
        return await self.expect(request.key)

    def note(self, request: Request) -> Event | None:
        """Take note of a request, and return its recorded completion where it has one.

        A mismatch ends the run, whatever the body does with the exception.
        """
        self.check_stopped()
        try:
            return self.recording.request(request)
        except PyrulaError as error:
            self.fail(error)
            raise

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
                self._waits.drop(name)
            self.poke()

    async def commit(self, key: str, event: Event, *, held: bool = False) -> Event:
        """Record an event and return it once it is durable and its turn has come.

        ``held`` marks a failure: delivered in turn, written with the next durable event. What was
        done while the run was being stopped is recorded all the same.
        """
        if not self.finished:
            self._outbox.append((key, event, held))
        self.check_stopped()
        return await self.expect(key)

    async def wait(self, *waits: Wait) -> Event:
        """Wait for the first of ``waits`` to complete; the run may be suspended meanwhile."""
        self.check_stopped()
        for wait in waits:
            self._waits.add(wait)
        return await self.expect(*(wait.key for wait in waits))

    async def signal(self, name: str, request: Request, *timeout: Wait) -> Event:
        """Return the next unread signal of that name, or the completion of ``timeout``."""
        self.note(request)
        unread = self._signals.read(name)
        if unread is not None:
            return unread
        self._signals.wait(name, request.key)
        try:
            return await self.wait(Wait(request.key, "signal"), *timeout)
        finally:
            self._signals.leave(name, request.key)

    def working(self, change: int) -> None:
        """Count a step that starts (+1) or stops (-1) running in this process."""
        self._working += change
        self.poke()
        if self._working == 0 and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

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

    def give_up(self, request: Request) -> None:
        """Record, with the next durable event, that the body cancelled a step it was waiting for.

        A replay needs to know: the step has no outcome, and the body went on without it.
        """
        if self.stopped is None and not self.finished:
            fields: dict[str, Any] = {"key": request.key, "input": request.digest}
            fields |= {"given_up": True, "failure": {}}
            self._held.append(Event(EventType.STEP_ERROR, fields))

    async def _until_given_up(self) -> None:
        """Wait, as the body did, until it cancels this call again."""
        self.patient += 1
        try:
            await self._loop.create_future()
        finally:
            self.patient -= 1

    async def _to_live(self, request: Request) -> None:
        """Wait until the journal has been matched to its end and failures seen are written."""
        if not self.live:
            gate: asyncio.Future[None] = self._loop.create_future()
            self._gate.append((gate, request))
            self.poke()
            await gate
        if self._held:
            # Nothing to record but what is held; the key only has to differ from every other.
            self._flushes += 1
            await self.commit(f"{FLUSH}{self._flushes}", Event(EventType.STEP_ERROR))
        self.check_stopped()

    def stop(self, reason: RunStop) -> None:
        """Unwind the body: every pending durable call raises ``reason``'s class."""
        if self.stopped is None:
            self.stopped = reason
        kind = type(self.stopped)
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_exception(kind())
        for gate, _ in self._gate:
            if not gate.done():
                gate.set_exception(kind())
        self._gate.clear()
        if not self.stopping.done():
            self.stopping.set_result(None)

    def fail(self, error: Exception) -> None:
        """Stop for good because of ``error``; the first one is kept."""
        self.fatal = self.fatal or error
        self.stop(Abandoned())

    def poke(self) -> None:
        """Let the pump look again."""
        if self._poke is not None and not self._poke.done():
            self._poke.set_result(None)

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
            if event.type is not EventType.SIGNAL_RECEIVED or self._signals.awaited(event):
                return
            self._signals.deliver(event)
            self.position += 1
