"""What a body waits for that something outside completes: timers, signals, questions, children.

Pure bookkeeping: must never do IO, read a clock or touch an event loop.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pyrula_core.events import Event, EventType
from pyrula_core.model import RunStatus

__all__ = ["SignalBox", "Wait", "WaitSet"]

# How long after it went to sleep a parent looks by itself whether its child has ended.
child_recheck_s: Final = 30.0


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


@dataclass(slots=True)
class WaitSet:
    """The waits of one body, by key."""

    by_key: dict[str, Wait] = field(default_factory=dict)

    def add(self, wait: Wait) -> None:
        """Begin to wait."""
        self.by_key[wait.key] = wait

    def drop(self, key: str) -> None:
        """Stop waiting under ``key``; nothing happens when nobody does."""
        self.by_key.pop(key, None)

    def next_due(self) -> float | None:
        """Return when the first wait completes by itself, None when none does."""
        return min((w.due for w in self.by_key.values() if w.due is not None), default=None)

    def wake_at(self, now: float) -> float | None:
        """Return when a suspended run is to be woken: a lost word of a child is looked for."""
        due = self.next_due()
        if all(wait.kind != "child" for wait in self.by_key.values()):
            return due
        return min(now + child_recheck_s, now + child_recheck_s if due is None else due)

    def take_due(self, now: float) -> list[Wait]:
        """Remove and return the waits that are due, in the order in which they fell due."""
        ready = [w for w in self.by_key.values() if w.due is not None and w.due <= now]
        for wait in ready:
            del self.by_key[wait.key]
        return sorted(ready, key=lambda wait: (wait.due or 0.0, wait.key))

    def intents(self) -> list[Event]:
        """Return the events that say what is waited for and are not written yet."""
        return [wait.intent for wait in self.by_key.values() if wait.intent is not None]

    def written(self) -> None:
        """Note that every intent has been recorded."""
        for wait in self.by_key.values():
            wait.intent = None

    def status(self) -> RunStatus:
        """Return the status of a run that rests on these waits."""
        asks = any(wait.kind == "interrupt" for wait in self.by_key.values())
        return RunStatus.INTERRUPTED if asks else RunStatus.WAITING


@dataclass(slots=True)
class SignalBox:
    """Signals that nobody has read yet, and calls that wait for the next one, by name."""

    unread: dict[str, deque[Event]] = field(default_factory=dict)
    readers: dict[str, deque[str]] = field(default_factory=dict)

    def read(self, name: str) -> Event | None:
        """Take the oldest unread signal of that name, None when there is none."""
        queue = self.unread.get(name)
        return queue.popleft() if queue else None

    def wait(self, name: str, key: str) -> None:
        """Queue a call for the next signal of that name."""
        self.readers.setdefault(name, deque()).append(key)

    def leave(self, name: str, key: str) -> None:
        """Take a call out of the queue; it may have been served already."""
        queue = self.readers.get(name)
        if queue and key in queue:
            queue.remove(key)

    def awaited(self, event: Event) -> bool:
        """Tell whether a call waits for this signal."""
        return bool(self.readers.get(event.data.get("name", "")))

    def deliver(self, event: Event) -> str | None:
        """Return the key of the call that gets a signal; kept for later when none waits."""
        if event.type is not EventType.SIGNAL_RECEIVED:
            return None
        name = event.data["name"]
        if self.awaited(event):
            return self.readers[name].popleft()
        self.unread.setdefault(name, deque()).append(event)
        return None
