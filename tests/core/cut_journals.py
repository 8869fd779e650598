"""Bodies with counted effects, and journals that are cut off anywhere and driven on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pyrula_core import (
    Client,
    DurableInvocationError,
    Event,
    EventType,
    InlineWorkflowRunner,
    Registry,
    workflow,
)
from pyrula_core.codec import encode
from pyrula_core.model import RunKey, RunKind
from pyrula_core.ports import Create, Store
from pyrula_core.stores import open_store

Body = Callable[..., Awaitable[Any]]

RUN = RunKey("order", "r")


class Effects:
    """Steps that note that they ran; ``turns`` says how many event-loop turns each one takes."""

    def __init__(self, turns: dict[str, int] | None = None) -> None:
        self.ran: list[str] = []
        self.turns = turns or {}

    async def work(self, name: str, *args: Any) -> str:
        """Be a step called ``name``."""
        self.ran.append(name)
        for _ in range(self.turns.get(name, 0)):
            await asyncio.sleep(0)
        return name

    def fail(self, name: str) -> None:
        """Be a step that never works."""
        self.ran.append(name)
        raise ValueError(name)


async def drive(body: Body, store: Store) -> Any:
    """Start or go on with the run under ``body`` and return its output."""
    registry = Registry()
    workflow(name=RUN.name, registry=registry)(body)
    outcome = await InlineWorkflowRunner(store, registry=registry).run(RUN.name, RUN.run_id)
    assert outcome.status == "complete", outcome
    return outcome.output


async def history(store: Store) -> list[Event]:
    """Return the run's journal."""
    return await Client(store).history(RUN.name, RUN.run_id)


async def finished(body: Body) -> tuple[Any, list[Event]]:
    """Run ``body`` to its end; returns its output and its journal without the last event."""
    store = open_store("memory://")
    output = await drive(body, store)
    events = await history(store)
    assert events[-1].type is EventType.RUN_COMPLETE
    return output, events[:-1]


async def cut(events: Sequence[Event]) -> Store:
    """Return a new store in which the run has come as far as ``events``, and its owner died."""
    store = open_store("memory://")
    bodies = tuple(encode(event) for event in events)
    await store.call(Create(RUN, RunKind.WORKFLOW, "1", RUN.run_id, bodies))
    return store


def prefixes(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Return every journal that a crash could have left, from the first event on."""
    return [events[:length] for length in range(1, len(events) + 1)]


def steps(events: Sequence[Event]) -> list[str]:
    """Return the keys of the steps that have an outcome, in order."""
    outcomes = (EventType.STEP_DONE, EventType.STEP_ERROR)
    return [event.data["key"] for event in events if event.type in outcomes]


async def refusal(body: Body, store: Store) -> tuple[DurableInvocationError, list[Event]]:
    """Drive a run that fails; returns its error and its journal."""
    try:
        output = await drive(body, store)
    except DurableInvocationError as error:
        return error, await history(store)
    raise AssertionError(f"the run went on and returned {output!r}")
