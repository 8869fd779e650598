"""A graph that does everything a graph can do, told until it is done.

A cycle, a fan-out by ``Send``, subgraphs three deep, an agent with two tools, a recorded sub-step
and a question, with sync and async nodes.
"""

from __future__ import annotations

import asyncio
import operator
import os
import random
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt

from pyrula_core import step
from pyrula_core.adapter import Registry
from pyrula_core.model import RunKey
from pyrula_core.ports import Store
from pyrula_langgraph import durable
from tests.crash.effects import EffectsLog
from tests.crash.evidence import Evidence
from tests.crash.scripted_model import ScriptedModel

NAME = "kill-graph"
LAPS = 3
PARCELS = 4


class State(TypedDict, total=False):
    """What the graph works on; ``trail`` is in the order in which LangGraph applies writes."""

    laps: int
    trail: Annotated[list[str], operator.add]
    weights: Annotated[list[int], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]
    verdict: dict[str, Any]


class Parcel(TypedDict):
    """What one branch of the fan-out is sent."""

    number: int


class GraphStory:
    """The graph, its nodes, and what must come of it."""

    name = "graph"
    run = RunKey(NAME, "r")
    unsure: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.effects = EffectsLog()
        self.graph = self.whole()

    async def live(self, store: Store) -> Any:
        """Run the graph and answer its question, whoever asked it."""
        bot = durable(self.graph, name=NAME, store=store, registry=Registry())
        given = {"laps": 0, "messages": [HumanMessage("Refund order 42", id="human")]}
        outcome = await bot.run_and_await(given, thread_id="t", run_id="r")
        while outcome.status == "interrupted":
            answers = {each.id: {"yes": each.value["quote"]} for each in outcome.interrupts}
            outcome = await bot.answer("r", answers)
        thread: Any = {"configurable": {"thread_id": "t"}}
        snapshot = await bot.aget_state(thread)
        steps = [each.metadata["step"] async for each in bot.aget_state_history(thread)]
        return {
            "status": outcome.status,
            "output": plain(outcome.output),
            "state": plain(snapshot.values),
            "next": list(snapshot.next),
            "steps": steps,
        }

    def expected(self, journal: Evidence, reference: Any) -> Any:
        """Return the outcome of the undisturbed run: a graph has one, whatever its branches do."""
        return reference

    # --- the graphs -----------------------------------------------------------------------------

    def whole(self) -> Any:
        """Compile the outermost graph."""
        builder = StateGraph(State)
        builder.add_node("lap", self.lap)
        builder.add_node("weigh", self.weigh)
        builder.add_node("stack", self.note("stack"))
        builder.add_node("outer", self.nested(3))
        builder.add_node("agent", self.agent())
        builder.add_node("approve", self.approve)
        builder.add_node("finish", self.note("finish"))
        builder.add_edge(START, "lap")
        builder.add_conditional_edges("lap", self.next_lap, ["lap", "weigh"])
        builder.add_edge("weigh", "stack")
        builder.add_edge("stack", "outer")
        builder.add_edge("outer", "agent")
        builder.add_edge("agent", "approve")
        builder.add_edge("approve", "finish")
        builder.add_edge("finish", END)
        return builder.compile()

    def nested(self, depth: int) -> Any:
        """Compile a graph of two nodes around one of ``depth - 1``."""
        builder = StateGraph(State)
        builder.add_node(f"in{depth}", self.note(f"in{depth}"))
        builder.add_node(f"out{depth}", self.note(f"out{depth}"))
        builder.add_edge(START, f"in{depth}")
        if depth > 1:
            builder.add_node(f"level{depth - 1}", self.nested(depth - 1))
            builder.add_edge(f"in{depth}", f"level{depth - 1}")
            builder.add_edge(f"level{depth - 1}", f"out{depth}")
        else:
            builder.add_edge(f"in{depth}", f"out{depth}")
        return builder.compile()

    def agent(self) -> Any:
        """Return LangChain's own agent with two tools."""

        @tool
        def look_up(order: int) -> str:
            """Look an order up."""
            self.effects.happened()
            return f"order {order}: 12.50"

        @tool
        async def refund(order: int) -> str:
            """Refund an order."""
            self.effects.happened()
            await asyncio.sleep(0.001)
            return f"refunded {order}"

        return create_agent(ScriptedModel(effects=self.effects), [look_up, refund])

    # --- the nodes ------------------------------------------------------------------------------

    async def lap(self, state: State) -> State:
        """Go round once more."""
        self.effects.happened()
        return {"laps": state["laps"] + 1, "trail": [f"lap {state['laps']}"]}

    def next_lap(self, state: State) -> Any:
        """Go round again, or send every parcel to be weighed."""
        if state["laps"] < LAPS:
            return "lap"
        return [Send("weigh", {"number": number}) for number in range(PARCELS)]

    async def weigh(self, parcel: Parcel) -> State:
        """Take a time that differs from process to process."""
        self.effects.happened()
        luck = random.Random(f"{parcel['number']} {os.getpid()}").random()
        await asyncio.sleep(luck / 200)
        return {"weights": [parcel["number"] ** 2]}

    def note(self, word: str) -> Any:
        """Return a sync node that leaves a word in the trail."""

        def noted(state: State) -> State:
            self.effects.happened()
            return {"trail": [f"{word} after {len(state.get('trail', []))}"]}

        return noted

    async def approve(self, state: State) -> State:
        """Price it once, whatever happens, then ask."""
        quote = await step("quote", self.quote, sum(state["weights"]))
        answer = interrupt({"quote": quote})
        self.effects.happened()
        return {"verdict": {"quote": quote, "answer": answer}}

    def quote(self, weight: int) -> int:
        """Be the sub-step that stands before the question."""
        self.effects.happened()
        return weight * 3


def plain(value: Any) -> Any:
    """Return a state as JSON, without the ids that LangGraph draws at random."""
    if isinstance(value, BaseMessage):
        drawn = value.type == "tool"
        shown = value.model_dump(mode="json", exclude={"id"} if drawn else set())
        return {**shown, "has_id": bool(value.id)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
