"""Drives a graph's run: what to hand to LangGraph, and what its return means.

LangGraph's own scheduler does the work and resumes from the saver; nothing is replayed from the
start. The outcome is decided from what was recorded, never from which exception surfaced: with
siblings that is a race. Precedence: lost lease, cancel, error, pause, interrupt, completion.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from pyrula_core.adapter import (
    Ack,
    Attempt,
    Cancelled,
    Completed,
    Ending,
    Failed,
    RunState,
    StoodDown,
    Waiting,
    capture,
    fold,
    run_code,
)
from pyrula_core.errors import PayloadTooLarge, ResultNotSerializable, StoreError
from pyrula_core.events import Event, EventType
from pyrula_core.model import RunKind, RunStatus
from pyrula_core.ports import Patch
from pyrula_langgraph._compat import DEFAULT_RECURSION_LIMIT, STRICT_RESUME
from pyrula_langgraph.changes import check_nodes_there
from pyrula_langgraph.codec import GraphCodec
from pyrula_langgraph.errors import GraphChanged
from pyrula_langgraph.leg import LEG, Leg
from pyrula_langgraph.outputs import OutputCodec, output_of
from pyrula_langgraph.retrying import last_step
from pyrula_langgraph.saver import JournalSaver
from pyrula_langgraph.sink import AttemptSink

__all__ = ["UNSET", "GraphExecutor", "Plan", "Returned", "Runner", "run_plan"]

UNSET: Final = object()
"""A leg's value when it was not asked for in the form that runs record."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one leg hands to LangGraph."""

    graph: Pregel[Any, Any, Any, Any]
    input: Any
    config: dict[str, Any]
    leg: Leg
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Returned:
    """How a leg came back: with a value, or by raising."""

    value: Any = UNSET
    error: BaseException | None = None


Runner = Callable[[Plan], Awaitable[Returned]]


async def run_plan(plan: Plan) -> Returned:
    """Run a leg on this event loop to its end."""
    token = LEG.set(plan.leg)
    try:
        graph: Any = plan.graph
        value = await graph.ainvoke(
            plan.input,
            plan.config,
            durability="sync",
            control=plan.leg.control,
            **plan.options,
        )
        return Returned(value)
    except Exception as error:  # noqa: BLE001
        # The boundary around the graph: whatever it raises is judged below.
        return Returned(error=error)
    finally:
        LEG.reset(token)


class GraphExecutor:
    """Executes runs of one wrapped graph; ``runner`` runs a leg (by default, here and now)."""

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any],
        saver: JournalSaver,
        codec: GraphCodec,
        *,
        runner: Runner = run_plan,
    ) -> None:
        self.graph = graph
        self.saver = saver
        self.codec = codec
        self.output_codec = OutputCodec(codec, graph, saver)
        self.runner = runner
        # What callers in this process passed beside the input, by run id. It is not recorded:
        # callbacks cannot be, and ``configurable`` may hold secrets.
        self.configs: dict[str, Mapping[str, Any]] = {}

    def through(self, runner: Runner) -> GraphExecutor:
        """Return this executor with another way of running a leg."""
        other = copy.copy(self)
        other.runner = runner
        return other

    async def execute(self, attempt: Attempt, history: list[Event]) -> Ending:
        """Run legs until the run ends, is suspended or has to stand down."""
        while True:
            state = fold(history)
            leg = Leg.of(attempt, history, state)
            try:
                plan = await self.plan(leg, history, state)
                if not isinstance(plan, Plan):
                    return plan
                ending = await self.judge(plan, await self.runner(plan))
            except (StoreError, GraphChanged) as error:
                return StoodDown(error)
            except (ResultNotSerializable, PayloadTooLarge) as error:
                return failed(error, leg)
            if not isinstance(ending, Ack):
                return ending
            history = [*history, *ending.foreign]

    # --- before ---------------------------------------------------------------------------------

    async def plan(self, leg: Leg, history: list[Event], state: RunState) -> Plan | Ending:
        """Return what LangGraph is to be given now, or how the run ends without it."""
        created = history[0].payload
        assert created is not None, "a graph's run always has an input"
        run_input, options = self.codec.decode(created)
        graph = copy.copy(self.graph)
        graph.checkpointer = self.saver.bound(sink=AttemptSink(leg, self.codec))
        config = self.config_of(leg, options)
        begun = history_has_state(history)
        snapshot = await self.own_snapshot(graph, config, leg, begun=begun)
        if snapshot is None:
            return Plan(graph, run_input, config, leg, call_options(options))
        self.skip_edits(leg, history, snapshot)
        failed = unfinished_failure(history)
        if failed is not None:
            return failed
        config["configurable"].pop("checkpoint_id", None)
        config["recursion_limit"] = self.steps_left(leg, snapshot, config)
        resume = self.answers_for(snapshot, state)
        if not resume and snapshot.interrupts:
            return await self.suspend(leg, ())  # type: ignore[return-value]
        if not resume and self.stopped_at(snapshot, state):
            return await self.suspend(leg, ())  # type: ignore[return-value]
        following: Any = Command(resume=resume) if resume else None
        return Plan(graph, following, config, leg, call_options(options))

    def config_of(self, leg: Leg, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config of a leg: the caller's, with the run's identity in it."""
        key = leg.attempt.key
        config = {**(options.get("config") or {}), **self.configs.get(key.run_id, {})}
        configurable = {
            **(options.get("config") or {}).get("configurable", {}),
            **config.get("configurable", {}),
            "thread_id": leg.attempt.row.partition,
            STRICT_RESUME: True,
        }
        return {
            **config,
            "metadata": {**config.get("metadata", {}), "run_id": key.run_id},
            "configurable": configurable,
        }

    async def own_snapshot(
        self,
        graph: Pregel[Any, Any, Any, Any],
        config: dict[str, Any],
        leg: Leg,
        *,
        begun: bool,
    ) -> StateSnapshot | None:
        """Return the thread's state when this run has written to it already, else None.

        The newest checkpoint may be an edit of the state; the input is not applied again for that.
        """
        plain = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
        saved = await self.saver.aget_tuple(plain)  # type: ignore[arg-type]
        if saved is None:
            return None
        check_nodes_there(graph, saved.checkpoint["channel_values"])
        writer = saved.metadata.get("run_id")
        if writer != leg.attempt.key.run_id and not begun:
            return None
        if writer not in (None, leg.attempt.key.run_id):
            raise GraphChanged(
                f"thread {leg.attempt.row.partition!r} was taken on by run {writer!r} meanwhile",
                hint="Cancel this run; its thread has moved on",
                code="thread_moved_on",
            )
        return await graph.aget_state(plain)  # type: ignore[arg-type]

    def steps_left(self, leg: Leg, snapshot: StateSnapshot, config: Mapping[str, Any]) -> int:
        """Count the recursion limit across restarts: a crash does not grant more steps."""
        own = (self.graph.config or {}).get("recursion_limit", int(DEFAULT_RECURSION_LIMIT))
        limit = config.get("recursion_limit") or own
        step = (snapshot.metadata or {}).get("step", 0)
        used = max(0, step - (leg.base_step if leg.base_step is not None else step))
        return max(1, limit - used)

    def skip_edits(self, leg: Leg, history: Sequence[Event], snapshot: StateSnapshot) -> None:
        """Count the edits of the state since the run's last superstep out of its keys."""
        last, now = last_step(history), (snapshot.metadata or {}).get("step")
        if leg.base_step is not None and last is not None and isinstance(now, int):
            leg.base_step += max(0, now - last)

    def answers_for(self, snapshot: StateSnapshot, state: RunState) -> dict[str, Any]:
        """Return the recorded answers to the questions that are pending."""
        answers: dict[str, Any] = {}
        for interrupt in snapshot.interrupts:
            question = state.questions.get(interrupt.id)
            if question is not None and question.answered and question.answer is not None:
                answers[interrupt.id] = self.codec.decode(question.answer)
        return answers

    def stopped_at(self, snapshot: StateSnapshot, state: RunState) -> bool:
        """Tell whether the run stands at a static breakpoint that nobody has passed yet."""
        question = state.questions.get(breakpoint_id(snapshot))
        return question is not None and question.open

    # --- after ----------------------------------------------------------------------------------

    async def judge(self, plan: Plan, returned: Returned) -> Ending | Ack:
        """Decide what a leg's return means; an Ack says that more has come in to go on with."""
        leg, error = plan.leg, returned.error
        if leg.attempt.failure is not None:
            return StoodDown(leg.attempt.failure)
        if leg.attempt.busy:
            await written(leg.attempt, (), Patch(), unless_foreign=False)
        if leg.attempt.controls.cancel:
            return Cancelled()
        if error is not None and not isinstance(error, Exception):
            # The caller went away: cancelled, interrupted, or it closed the stream.
            return StoodDown(error)
        if error is not None and not isinstance(error, GraphBubbleUp):
            return failed(error, leg)
        if leg.errors:
            return failed(leg.errors[0][1], leg)
        if leg.attempt.controls.pause or error is not None:
            return Waiting(paused=True)
        return await self.rest(plan, returned)

    async def rest(self, plan: Plan, returned: Returned) -> Ending | Ack:
        """Tell an interrupted run from one at a breakpoint and from a complete one."""
        snapshot = await plan.graph.aget_state(
            {"configurable": {"thread_id": plan.leg.attempt.row.partition}}
        )
        if snapshot.interrupts:
            return await self.suspend(plan.leg, replaced_questions(plan.leg, snapshot))
        if snapshot.next:
            return await self.suspend(plan.leg, [self.breakpoint_event(snapshot)])
        value = returned.value
        if value is UNSET:
            value = output_of(plan.graph, snapshot)
        return Completed(self.output_codec.encode_at(value, snapshot))

    def breakpoint_event(self, snapshot: StateSnapshot) -> Event:
        """Return the question that a static breakpoint stands for."""
        fields = {
            "key": f"breakpoint/{','.join(snapshot.next)}",
            "id": breakpoint_id(snapshot),
            "node": snapshot.next[0],
            "breakpoint": True,
        }
        asked = self.codec.encode({"breakpoint": list(snapshot.next)})
        return Event(EventType.INTERRUPT_OPENED, fields, asked)

    async def suspend(self, leg: Leg, events: Sequence[Event]) -> Waiting | Ack:
        """Give the lease back until somebody answers, unless somebody just did."""
        patch = Patch(status=RunStatus.INTERRUPTED, release=True)
        ack = await written(leg.attempt, events, patch)
        return Waiting() if ack.written else ack


def history_has_state(history: Sequence[Event]) -> bool:
    """Tell whether a run has written to its thread, and so has taken its input."""
    return any(
        event.type is EventType.GRAPH_CHECKPOINT and not event.data.get("ns") for event in history
    )


def replaced_questions(leg: Leg, snapshot: StateSnapshot) -> list[Event]:
    """Close questions that the state no longer asks: an edit made their node ask anew."""
    still = {interrupt.id for interrupt in snapshot.interrupts}
    gone = sorted(each for each in leg.asked - still if not each.startswith("bp-"))
    return [
        Event(EventType.INTERRUPT_CLOSED, {"id": each, "reason": "state_edited"}) for each in gone
    ]


def call_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``ainvoke`` that are the run's own and survive a restart."""
    names = ("context", "interrupt_before", "interrupt_after", "output_keys")
    return {name: options[name] for name in names if options.get(name) is not None}


def breakpoint_id(snapshot: StateSnapshot) -> str:
    """Return the id of the breakpoint at a checkpoint: once per occurrence."""
    checkpoint = str((snapshot.config or {}).get("configurable", {}).get("checkpoint_id", ""))
    return f"bp-{checkpoint}"


def unfinished_failure(history: Sequence[Event]) -> Failed | None:
    """Return the ending of a run whose failure was recorded and whose owner died right then.

    Without it the failed node would run again, though its failure had been its outcome.
    """
    for event in reversed(history):
        if event.type is EventType.GRAPH_CHECKPOINT and not event.data.get("ns"):
            return None
        if event.type is EventType.INTERRUPT_ANSWERED:
            return None
        if event.type is EventType.STEP_ERROR and event.data.get("handled") is False:
            detail = {"steps": [event.data["key"]]}
            failure = event.data["failure"]
            return Failed("agent_error", failure, failure.get("user_code"), detail)
    return None


def failed(error: BaseException, leg: Leg) -> Ending:
    """Return the ending of a graph that raised, or stand down when the store did."""
    if isinstance(error, StoreError):
        return StoodDown(error)
    record = capture(error)
    detail = {"steps": [key for key, _ in leg.errors]} if leg.errors else {}
    code = run_code(error, RunKind.AGENT)
    return Failed(code, record.to_json(), record.user_code, detail, (), error)


async def written(
    attempt: Attempt, events: Sequence[Event], patch: Patch, *, unless_foreign: bool = True
) -> Ack:
    """Append events and return the store's word."""
    future = attempt.submit(events, patch=patch, unless_foreign=unless_foreign)
    return future.result() if future.done() else await asyncio.wrap_future(future)
