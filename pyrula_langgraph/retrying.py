"""What a retry of a graph's run takes over: the thread's state does most of the work.

A graph's recorded nodes live in the thread's checkpoints, so the new run goes on from them with no
input of its own. Sub-steps of the failed node are copied: they do not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from pyrula_core.events import Event, EventType
from pyrula_langgraph.codec import GraphCodec

__all__ = ["edited_steps", "first_step", "last_step", "retried_run"]


def first_step(history: Sequence[Event]) -> int | None:
    """Return the number of a run's first superstep on its thread, None before it has one."""
    inherited = history[0].data.get("base_step")
    if isinstance(inherited, int):
        return inherited
    for event in history:
        if event.type is EventType.GRAPH_CHECKPOINT and not event.data.get("ns"):
            return int(event.data["step"])
    return None


def edited_steps(history: Sequence[Event]) -> int:
    """Return how many supersteps of a run's thread were edits: the gaps between its own.

    Structural keys do not count them, so that a node is the same node after an edit.
    """
    steps = [
        int(event.data["step"])
        for event in history
        if event.type is EventType.GRAPH_CHECKPOINT and not event.data.get("ns")
    ]
    return sum(max(0, after - before - 1) for before, after in pairwise(steps))


def last_step(history: Sequence[Event]) -> int | None:
    """Return the number of the last superstep that a run itself recorded."""
    for event in reversed(history):
        if event.type is EventType.GRAPH_CHECKPOINT and not event.data.get("ns"):
            return int(event.data["step"])
    return None


def retried_run(codec: GraphCodec) -> Callable[[Sequence[Event]], list[Event]]:
    """Return the function that derives a retry's first events from a failed run's journal."""

    def derive(history: Sequence[Event]) -> list[Event]:
        base = first_step(history)
        if base is None or history[0].payload is None:
            return []
        _, options = codec.decode(history[0].payload)
        payload = codec.encode([None, options])
        created = Event(EventType.RUN_CREATED, {"base_step": base}, payload)
        return [created, *(event for event in history if is_substep(event))]

    return derive


def is_substep(event: Event) -> bool:
    """Tell whether an event is the recorded success of a ``step`` or ``once`` inside a node."""
    return event.type is EventType.STEP_DONE and "input" in event.data
