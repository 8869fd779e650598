"""The graphs that the benchmarks run, and LangGraph's own saver to run them with.

Every builder takes ``step``, which its nodes await first; see ``measure.in_turns``.
"""

from __future__ import annotations

import operator
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send
from measure import Step

from pyrula_core import Registry
from pyrula_core.ports import Store
from pyrula_langgraph import DurableGraph, durable

__all__ = [
    "Count",
    "config_for",
    "counting",
    "fanning_out",
    "free",
    "growing",
    "looping",
    "message_bytes",
    "sqlite_saver",
    "wrapped",
]

message_bytes: Final = 1024
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz     "

Saver = BaseCheckpointSaver[Any]


class Count(TypedDict):
    """The state of ``counting``."""

    done: int


class Fan(TypedDict):
    """The state of ``fanning_out``."""

    number: int
    seen: Annotated[list[int], operator.add]


async def free() -> None:
    """Begin a step without waiting for a turn."""


def looping(state: Any, name: str, node: Any, more: Any, saver: Saver | None) -> Any:
    """Return a compiled graph of one node that follows itself while ``more`` says so.

    Node and router are async: a sync one costs a change of threads, which would hide the rest.
    """
    graph = StateGraph(state)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    graph.add_conditional_edges(name, more, [name, END])
    return graph.compile(checkpointer=saver)


def counting(steps: int, step: Step = free, saver: Saver | None = None) -> Any:
    """Return a graph of so many steps with next to no state: what is measured is the step."""

    async def count(state: Count) -> dict[str, int]:
        await step()
        return {"done": state["done"] + 1}

    async def more(state: Count) -> str:
        return "count" if state["done"] < steps else END

    return looping(Count, "count", count, more, saver)


def growing(steps: int, step: Step = free, saver: Saver | None = None) -> Any:
    """Return a graph that adds a message of 1 KB to its list in each of so many steps."""
    chance = random.Random(steps)

    async def say(state: MessagesState) -> dict[str, Any]:
        await step()
        return {"messages": [HumanMessage("".join(chance.choices(LETTERS, k=message_bytes)))]}

    async def more(state: MessagesState) -> str:
        return "say" if len(state["messages"]) < steps else END

    return looping(MessagesState, "say", say, more, saver)


def fanning_out(width: int, saver: Saver | None = None) -> Any:
    """Return a graph that sends to so many nodes at once."""

    async def leaf(state: Fan) -> dict[str, list[int]]:
        return {"seen": [state["number"]]}

    def spread(state: Fan) -> list[Send]:
        return [Send("leaf", {"number": number, "seen": []}) for number in range(width)]

    graph = StateGraph(Fan)
    graph.add_node("leaf", leaf)
    graph.add_conditional_edges(START, spread, ["leaf"])
    return graph.compile(checkpointer=saver)


def config_for(steps: int, thread: str = "thread") -> Any:
    """Return the config of a run of so many steps on a thread."""
    return {"recursion_limit": steps + 10, "configurable": {"thread_id": thread}}


def wrapped(graph: Any, store: Store) -> DurableGraph:
    """Return a graph made durable on a store, in a registry of its own."""
    return durable(graph, name="bench", store=store, registry=Registry())


@asynccontextmanager
async def sqlite_saver(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """Open LangGraph's saver with what our store promises: a log, synced at every commit."""
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        await saver.conn.execute("PRAGMA journal_mode = WAL")
        await saver.conn.execute("PRAGMA synchronous = FULL")
        yield saver
