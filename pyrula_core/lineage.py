"""Derives the journal of a new run from that of an old one: retries and forks.

Pure: must never do IO. What is kept are recorded outcomes, in their order; what belongs to the old
run's life (claims, requeues, controls, its end) is left behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyrula_core.errors import RetryRefusedError
from pyrula_core.events import TERMINAL, Event, EventType, Payload
from pyrula_core.values import ValueCodec

__all__ = ["created_again", "forked", "retried"]

OF_THE_OLD_LIFE: Final = TERMINAL | {
    EventType.RUN_CREATED,
    EventType.RUN_CLAIMED,
    EventType.RUN_REQUEUED,
    EventType.RUN_PAUSED,
    EventType.RUN_RESUMED,
    EventType.RUN_CANCEL_REQUESTED,
}

# What of a step that is to run again would tell it that it had begun.
UNDONE: Final = frozenset(
    {
        EventType.STEP_ERROR,
        EventType.STEP_STARTED,
        EventType.STEP_RETRYING,
        EventType.CHILD_STARTED,
        EventType.CHILD_ERROR,
    }
)

# What a new run takes over from the old one's first event, so that replay sees the same world.
INHERITED: Final = ("kind", "version", "thread", "origin", "seed", "began")


def created_again(history: Sequence[Event], run_id: str, **more: Any) -> Event:
    """Return the first event of a run derived from ``run_id``'s history."""
    first = history[0]
    fields = {name: first.data[name] for name in INHERITED if name in first.data}
    fields.setdefault("origin", run_id)
    fields.setdefault("seed", f"{run_id}@{first.at!r}")
    fields.setdefault("began", first.at)
    return Event(EventType.RUN_CREATED, {**fields, **more}, first.payload)


def retried(history: Sequence[Event]) -> list[Event]:
    """Return what a retry serves: every recorded outcome but those that ended the run."""
    last = history[-1]
    undone = set((last.data.get("detail") or {}).get("steps", ()))
    # Children that ended with their parent are started again, as the new parent's own.
    undone |= {key for key, _ in lost_children(history)}
    return [
        event
        for event in history
        if event.type not in OF_THE_OLD_LIFE
        and not (event.type in UNDONE and event.data["key"] in undone)
    ]


def lost_children(history: Sequence[Event]) -> list[tuple[str, Event]]:
    """Return the children that were cancelled because their parent ended."""
    open_now: dict[str, Event] = {}
    for event in history:
        if event.type is EventType.CHILD_STARTED and event.data.get("policy") == "cancel":
            open_now[event.data["key"]] = event
        elif event.type in (EventType.CHILD_DONE, EventType.CHILD_ERROR):
            open_now.pop(event.data["key"], None)
    return list(open_now.items())


def forked(
    history: Sequence[Event], at: str | int, patch: Mapping[str, Any], codec: ValueCodec
) -> list[Event]:
    """Return what a fork serves: what stands before ``at``, with some outcomes replaced.

    ``at`` is a step's key or a seq; that event and all after it are left out. ``patch`` maps step
    keys to the results that take the place of the recorded ones.
    """
    cut = place_of(history, at)
    kept = [event for event in history if event.seq < cut and event.type not in OF_THE_OLD_LIFE]
    known = {event.data["key"] for event in kept if event.type in PATCHABLE}
    unknown = sorted(set(patch) - known - {"input"})
    if unknown:
        raise RetryRefusedError(
            f"patch= names steps that the fork does not keep: {unknown}",
            hint=f"It keeps {sorted(known)}; 'input' replaces the run's arguments",
            code="fork_point_unknown",
        )
    return [patched(event, patch, codec) for event in kept]


PATCHABLE: Final = frozenset({EventType.STEP_DONE, EventType.STEP_ERROR})


def place_of(history: Sequence[Event], at: str | int) -> int:
    """Return the seq from which on a fork leaves the old journal."""
    for event in history:
        if at == event.seq or at == event.data.get("key"):
            return event.seq
    keys = [event.data["key"] for event in history if event.type in PATCHABLE]
    raise RetryRefusedError(
        f"there is no event {at!r} in the journal",
        hint=f"Fork at a seq from 2 to {history[-1].seq}, or at one of the steps {keys}",
        code="fork_point_unknown",
    )


def patched(event: Event, patch: Mapping[str, Any], codec: ValueCodec) -> Event:
    """Return an outcome with its replacement, where it has one."""
    key = str(event.data.get("key"))
    if event.type not in PATCHABLE or key not in patch:
        return event
    fields = {name: event.data[name] for name in ("key", "input", "shape") if name in event.data}
    payload: Payload = codec.encode(patch[key])
    return Event(EventType.STEP_DONE, {**fields, "patched": True}, payload, event.at)
