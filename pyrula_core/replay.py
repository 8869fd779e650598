"""Indexes a journal for replay and says where code and journal differ.

Owns step keys, the order of recorded completions, and the words of a non-determinism diff. Must
never do IO, await, or decode a user's value.

A key is a path: ``pull#0`` is the first step named *pull* of the body; ``~1/pull#0`` the first one
of the second concurrent task; ``pull#0>charge#0`` a sub-step inside a step. Completions are served
in the order in which they were recorded, so a race is won by the same side again. Sub-steps are the
exception: they belong to a step that runs again as a whole, and are served as it asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyrula_core.errors import NondeterminismError
from pyrula_core.events import Event, EventType

__all__ = ["Recording", "Request", "ScopeNames", "scope_of"]

SUBSTEP: Final = ">"

# What completes a request, and the kind of request it completes.
COMPLETIONS: Final[Mapping[EventType, str]] = {
    EventType.STEP_DONE: "step",
    EventType.STEP_ERROR: "step",
    EventType.TIMER_FIRED: "timer",
    EventType.INTERRUPT_ANSWERED: "interrupt",
    EventType.CHILD_DONE: "child",
    EventType.CHILD_ERROR: "child",
}

# What was begun: shows that a request was made, before anything completed it.
INTENTS: Final[Mapping[EventType, str]] = {
    EventType.STEP_STARTED: "step",
    EventType.STEP_RETRYING: "step",
    EventType.TIMER_SET: "timer",
    EventType.INTERRUPT_OPENED: "interrupt",
    EventType.CHILD_STARTED: "child",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What the code asks for: a key, the kind of durable call, and its arguments' fingerprint."""

    key: str
    kind: str
    digest: str | None = None
    shape: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.key!r} called with ({self.shape})"


def scope_of(key: str) -> str:
    """Return the scope part of a key, with its separator: ``~1/`` of ``~1/pull#0``."""
    cut = max(key.rfind("/"), key.rfind(SUBSTEP)) + 1
    return key[:cut]


@dataclass(slots=True)
class ScopeNames:
    """Gives out keys within one scope: each name is counted by itself."""

    prefix: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    branches: set[int] = field(default_factory=set)

    def key(self, name: str) -> str:
        """Return the next key for ``name``."""
        place = self.counts.get(name, 0)
        self.counts[name] = place + 1
        return f"{self.prefix}{name}#{place}"

    def branch(self, number: int) -> ScopeNames:
        """Return the scope of the concurrent task with that number."""
        self.branches.add(number)
        return ScopeNames(f"{self.prefix}~{number}/")

    def inside(self, key: str) -> ScopeNames:
        """Return the scope of what runs inside the step ``key``."""
        return ScopeNames(f"{key}{SUBSTEP}")


class Recording:
    """A journal, indexed: ``ordered`` holds completions and signals as they are to be served."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.ordered: list[tuple[str | None, Event]] = []
        self.completed: dict[str, Event] = {}
        self.intents: dict[str, Event] = {}
        self.substeps: dict[str, Event] = {}
        self.updates: dict[str, Event] = {}
        self.given_up: set[str] = set()
        self._question_keys: dict[str, str] = {}
        self._requested: set[str] = set()
        # Keys of each scope that the code has not asked for yet, in recorded order.
        self._unasked: dict[str, dict[str, None]] = {}
        # The first request that each recorded branch of a scope made, by the branch's number.
        self._branches: dict[str, dict[int, tuple[str, str | None]]] = {}
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if event.type is EventType.SIGNAL_RECEIVED or event.type is EventType.UPDATE_REQUESTED:
            self.ordered.append((None, event))
        elif event.type in (EventType.UPDATE_HANDLED, EventType.UPDATE_REJECTED):
            self.updates[event.data["id"]] = event
        elif event.type in INTENTS:
            self._take_intent(event)
        elif event.type in COMPLETIONS:
            self._take_completion(event)

    def _take_intent(self, event: Event) -> None:
        key = event.data["key"]
        self.intents[key] = event
        if event.type is EventType.INTERRUPT_OPENED:
            self._question_keys[event.data["id"]] = key
        if SUBSTEP not in key:
            self._note_scope(key, event)

    def _take_completion(self, event: Event) -> None:
        key = self.key_of(event)
        if key is None:
            return
        if event.data.get("given_up"):
            self._take_given_up(key, event)
            return
        if key in self.completed:
            return
        if SUBSTEP in key:
            self.substeps[key] = event
            return
        self.completed[key] = event
        self.ordered.append((key, event))
        self._note_scope(key, event)

    def _take_given_up(self, key: str, event: Event) -> None:
        """Note that the body left a step behind, even where its outcome had just been recorded."""
        self.given_up.add(key)
        if self.completed.pop(key, None) is not None:
            self.ordered = [entry for entry in self.ordered if entry[0] != key]
        else:
            self._note_scope(key, event)

    def _note_scope(self, key: str, event: Event) -> None:
        scope = scope_of(key)
        self._unasked.setdefault(scope, {})[key] = None
        outer, mark, number = scope.removesuffix("/").rpartition("~")
        if mark:
            first = (key[len(scope) :].partition("#")[0], event.data.get("input"))
            self._branches.setdefault(outer, {}).setdefault(int(number), first)

    def branch(self, names: ScopeNames, name: str, digest: str | None) -> ScopeNames:
        """Return the scope of a concurrent task whose first request is ``name`` with ``digest``.

        The order in which tasks start may differ from run to run (``as_completed`` starts them in
        the order of a set), so a branch is known by what it asks first, and by its order only among
        equals. One without a record gets a number that no record has.
        """
        recorded = self._branches.get(names.prefix, {})
        number = len(names.branches)
        if number in names.branches or recorded.get(number) != (name, digest):
            same = [n for n, first in recorded.items() if first == (name, digest)]
            number = min((n for n in same if n not in names.branches), default=-1)
        if number < 0:
            number = 0
            while number in recorded or number in names.branches:
                number += 1
        return names.branch(number)

    def key_of(self, event: Event) -> str | None:
        """Return the key that an event completes, None when nothing waits under a known key."""
        if event.type is EventType.INTERRUPT_ANSWERED:
            return self._question_keys.get(event.data["id"])
        key = event.data.get("key")
        return key if isinstance(key, str) else None

    def opened(self, question_id: str, key: str) -> None:
        """Remember which request a question belongs to."""
        self._question_keys[question_id] = key

    def request(self, request: Request) -> Event | None:
        """Take note of what the code asks for; returns its recorded completion, or None.

        Raises NondeterminismError when the journal holds something else in its place.
        """
        self._requested.add(request.key)
        unasked = self._unasked.get(scope_of(request.key))
        if unasked and request.key in unasked:
            self._check_place(request)
            del unasked[request.key]
        recorded = self.completed.get(request.key) or self.intents.get(request.key)
        if recorded is None and (request.key in self.given_up or leaves_no_trace(request)):
            return None
        if recorded is None:
            self._check_place(request)
            return None
        self._check_same(request, recorded)
        return self.completed.get(request.key)

    def _check_same(self, request: Request, recorded: Event) -> None:
        kind = COMPLETIONS.get(recorded.type) or INTENTS[recorded.type]
        digest = recorded.data.get("input")
        if kind == request.kind and (
            digest is None or request.digest is None or digest == request.digest
        ):
            return
        raise differs(request, describe(recorded, kind), recorded.seq)

    def _check_place(self, request: Request) -> None:
        """Check that the scope asks nothing new before what it recorded: it asks one at a time."""
        for key in self._unasked.get(scope_of(request.key), ()):
            if key == request.key:
                return
            if key in self.given_up:
                continue
            recorded = self.completed.get(key) or self.intents[key]
            kind = COMPLETIONS.get(recorded.type) or INTENTS[recorded.type]
            raise differs(request, describe(recorded, kind), recorded.seq)

    def never_requested(self, position: int) -> Event | None:
        """Return the first record that the code never asked for, None when there is none.

        Looks at completions from ``position`` on, and at what was begun and never completed.
        """
        late = [event for key, event in self.ordered[position:] if self._unclaimed(key)]
        begun = [
            event
            for key, event in self.intents.items()
            if key not in self.completed and SUBSTEP not in key and self._unclaimed(key)
        ]
        return min([*late, *begun], key=lambda event: event.seq, default=None)

    def _unclaimed(self, key: str | None) -> bool:
        return key is not None and key not in self._requested


def leaves_no_trace(request: Request) -> bool:
    """Tell whether a request may be missing from a journal that goes on behind it.

    A signal is recorded when it comes, not when it is read, and the timer that limits the wait for
    one is only recorded when the run goes to sleep over it.
    """
    return request.kind == "signal" or request.key.endswith("!timeout")


def describe(event: Event, kind: str) -> str:
    """Return what a recorded event says, in the words of a request."""
    return f"{kind} {event.data.get('key', '?')!r} called with ({event.data.get('shape', '')})"


def differs(request: Request, recorded: str, seq: int) -> NondeterminismError:
    """Return the error that shows both sides."""
    asked = str(request)
    reason = "the same with other arguments" if asked == recorded else "something else"
    return NondeterminismError(
        f"the code asks for {reason} than its journal holds\n"
        f"  journal, event {seq}: {recorded}\n"
        f"  code now:{' ' * len(str(seq))}      {asked}\n",
        recorded=recorded,
        asked=asked,
        seq=seq,
    )


def left_over(
    event: Event, asked_instead: Request | None, *, ended: bool = False
) -> NondeterminismError:
    """Return the error for a record that the code no longer asks for."""
    kind = COMPLETIONS.get(event.type) or INTENTS[event.type]
    recorded = describe(event, kind)
    asked = "the end of the body" if ended else str(asked_instead or "what comes later")
    return NondeterminismError(
        f"the code no longer asks for what its journal holds\n"
        f"  journal, event {event.seq}: {recorded}\n"
        f"  code now:{' ' * len(str(event.seq))}      {asked}\n",
        recorded=recorded,
        asked=asked,
        seq=event.seq,
    )
