"""Writes what the saver records into the run's journal: records and events in one transaction.

Owns which event a task's writes or a checkpoint become. Must never decide how a run ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from langgraph.constants import START
from langgraph.types import Interrupt

from pyrula_core.adapter import Ack, live
from pyrula_core.events import Event, EventType, Payload
from pyrula_core.ports import Record, RecordRange
from pyrula_core.values import ValueCodec
from pyrula_langgraph._compat import (
    ERROR_SOURCE_NODE,
    INTERRUPT,
    NO_WRITES,
    NS_SEPARATOR,
    RESUME,
)
from pyrula_langgraph.facts import CheckpointFact, SaverFact, TaskFact
from pyrula_langgraph.leg import Leg

__all__ = ["AttemptSink"]

# A task's writes are followed at once by the checkpoint of its superstep, when it was the last one.
# Waiting this long for it makes one commit of the two; nothing is acknowledged before either.
linger_s: Final = 0.001


class AttemptSink:
    """The saver's way into the journal of the run that ``leg`` executes.

    LangGraph submits a task's writes in the background and looks at failures late; ``leg.attempt``
    remembers the first one, and every node checks it before it starts.
    """

    def __init__(self, leg: Leg, codec: ValueCodec) -> None:
        self.leg = leg
        self.codec = codec

    def submit(
        self, thread: str, records: Sequence[Record | RecordRange], fact: SaverFact | None
    ) -> Future[None]:
        """Append the records with the events they stand for; the thread is the run's own."""
        del thread
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()
        events = self.events_of(fact)
        attempt, loop = self.leg.attempt, running_loop()
        linger = loop is not None and isinstance(fact, TaskFact) and fact.error is None
        write = attempt.submit(events, records=records, linger=linger)
        write.add_done_callback(lambda ack: self.settle(done, ack))
        if loop is not None and linger:
            loop.call_later(linger_s, attempt.flush)
        return done

    def settle(self, done: Future[None], ack: Future[Ack]) -> None:
        """Pass the outcome on, and let the graph see new controls."""
        self.leg.obey()
        error = ack.exception()
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def events_of(self, fact: SaverFact | None) -> list[Event]:
        """Return the events of one write of the saver."""
        match fact:
            case TaskFact():
                return self.task_events(fact)
            case CheckpointFact():
                return self.checkpoint_events(fact)
            case None:
                return []

    def task_events(self, fact: TaskFact) -> list[Event]:
        """Return a task's outcome: done, failed, or one event for each question it asks."""
        key = self.leg.task_key(fact.task_id, fact.checkpoint_ns, fact.task_path)
        frame = self.leg.frame_of(fact.task_id)
        held = list(frame.run.held) if frame is not None else []
        if fact.error is not None:
            return self.failure_events(fact, key)
        if fact.interrupts:
            self.forget(fact, held)
            return [*held, *self.questions(fact, key)]
        if not set(fact.channels) - {RESUME, INTERRUPT, ERROR_SOURCE_NODE} or is_start(key):
            return []
        self.forget(fact, held)
        fields = self.fields_of(key, fact)
        if NO_WRITES in fact.channels:
            fields["writes"] = 0
        return [*held, Event(EventType.STEP_DONE, fields)]

    def forget(self, fact: TaskFact, held: list[Event]) -> None:
        """Let go of a node whose failures are being written with its outcome."""
        frame = self.leg.frame_of(fact.task_id)
        if frame is not None:
            del frame.run.held[: len(held)]
            self.leg.leave(frame)

    def failure_events(self, fact: TaskFact, key: str) -> list[Event]:
        """Return the event of a failed task; one with an error handler has not failed the run."""
        assert fact.error is not None, "called for failures"
        handled = ERROR_SOURCE_NODE in fact.channels
        if not handled:
            self.leg.errors.append((key, fact.error))
        fields = self.fields_of(key, fact)
        fields["failure"] = live(fact.error)[0].to_json()
        fields["handled"] = handled
        return [Event(EventType.STEP_ERROR, fields)]

    def fields_of(self, key: str, fact: TaskFact) -> dict[str, Any]:
        """Return what every outcome of a node says."""
        fields: dict[str, Any] = {"key": key, "task": fact.task_id}
        attempts = self.leg.started.get(key, 1)
        if attempts > 1:
            fields["attempts"] = attempts
        return fields

    def questions(self, fact: TaskFact, key: str) -> list[Event]:
        """Return an event for each question that is not open already."""
        fresh = [each for each in fact.interrupts if each.id not in self.leg.asked]
        self.leg.asked.update(each.id for each in fresh)
        return [self.question(each, key) for each in fresh]

    def question(self, interrupt: Interrupt, key: str) -> Event:
        """Return the event of a question; its id is LangGraph's own."""
        fields: dict[str, Any] = {"key": key, "id": interrupt.id, "node": node_of(key)}
        schema = getattr(interrupt, "response_schema", None)
        if schema is not None:
            fields["response_schema"] = schema
        return Event(EventType.INTERRUPT_OPENED, fields, self.encoded(interrupt.value))

    def encoded(self, value: Any) -> Payload:
        """Return what was asked."""
        return self.codec.encode(value)

    def checkpoint_events(self, fact: CheckpointFact) -> list[Event]:
        """Return a checkpoint's event; the first one of the root tells where the run begins."""
        if not fact.checkpoint_ns and self.leg.base_step is None:
            self.leg.base_step = fact.step
        fields: dict[str, Any] = {"checkpoint": fact.checkpoint_id, "step": fact.step}
        if fact.checkpoint_ns:
            outer = self.leg.outer_key(fact.checkpoint_ns.split(NS_SEPARATOR))
            fields["ns"] = outer or fact.checkpoint_ns
        return [Event(EventType.GRAPH_CHECKPOINT, fields)]


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of the calling thread, None where there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_start(key: str) -> bool:
    """Tell whether a key is that of the hidden node that takes a graph's input."""
    return node_of(key) == START


def node_of(key: str) -> str:
    """Return the node's name of a structural key: ``ask`` of ``4.sub/1.ask[2]``."""
    own = key.rpartition("/")[2].partition(".")[2] or key
    return own.partition("[")[0].partition("#")[0].partition("!")[0]
