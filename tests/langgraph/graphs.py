"""Small graphs that the adapter's tests wrap; each builder returns a fresh, uncompiled graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from pyrula_langgraph import DurableGraph

Note = Callable[[str], None]
Wrap = Callable[..., DurableGraph]
START_STATE: dict[str, Any] = {"log": [], "n": 0}


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    n: int


class Item(TypedDict):
    i: int


def ignore(_: str) -> None:
    return None


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def one_node(node: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph


def looped(note: Note) -> StateGraph[Any, Any, Any, Any]:
    """Three rounds of a and b, a fan-out to three workers, then a three-level subgraph."""

    def a(state: State) -> dict[str, Any]:
        note("a")
        return {"log": ["a"], "n": state["n"] + 1}

    async def b(state: State) -> dict[str, Any]:
        note("b")
        return {"log": ["b"]}

    def route(state: State) -> Any:
        return "a" if state["n"] < 3 else [Send("w", {"i": i}) for i in range(3)]

    def w(item: Item) -> dict[str, Any]:
        note(f"w{item['i']}")
        return {"log": [f"w{item['i']}"]}

    graph = StateGraph(State)
    graph.add_node("a", a)
    graph.add_node("b", b)
    graph.add_node("w", w)
    graph.add_node("outer", nested(note, depth=3).compile())
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", route, ["a", "w"])
    graph.add_edge("w", "outer")
    graph.add_edge("outer", END)
    return graph


def nested(note: Note, *, depth: int) -> StateGraph[Any, Any, Any, Any]:
    """A subgraph inside a subgraph, ``depth`` levels deep; the innermost appends its depth."""

    def leaf(state: State) -> dict[str, Any]:
        note(f"leaf{depth}")
        return {"log": [f"leaf{depth}"]}

    graph = StateGraph(State)
    graph.add_node("leaf", leaf)
    graph.add_edge(START, "leaf")
    if depth > 1:
        graph.add_node("deeper", nested(note, depth=depth - 1).compile())
        graph.add_edge("leaf", "deeper")
        graph.add_edge("deeper", END)
    else:
        graph.add_edge("leaf", END)
    return graph


def asking(note: Note, *, nodes: int = 1) -> StateGraph[Any, Any, Any, Any]:
    """``nodes`` parallel nodes that each ask one question."""
    graph = StateGraph(State)
    for number in range(nodes):

        def ask(state: State, number: int = number) -> dict[str, Any]:
            note(f"ask{number}")
            return {"log": [f"{number}:{interrupt({'q': number})}"]}

        graph.add_node(f"ask{number}", ask)
        graph.add_edge(START, f"ask{number}")
        graph.add_edge(f"ask{number}", END)
    return graph


def commanding(note: Note) -> StateGraph[Any, Any, Any, Any]:
    """A node that jumps with Command, and a subgraph that jumps in its parent."""

    def first(state: State) -> Command[Literal["third"]]:
        note("first")
        return Command(goto="third", update={"log": ["first"]})

    def second(state: State) -> dict[str, Any]:
        note("second")
        return {"log": ["second"]}

    def leaf(state: State) -> Command[Any]:
        note("leaf")
        return Command(graph=Command.PARENT, goto="second", update={"log": ["leaf"]})

    inner = StateGraph(State)
    inner.add_node("leaf", leaf)
    inner.add_edge(START, "leaf")
    graph = StateGraph(State)
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_node("third", inner.compile(), destinations=("second",))
    graph.add_edge(START, "first")
    graph.add_edge("second", END)
    return graph


def failing(note: Note, error: Exception) -> StateGraph[Any, Any, Any, Any]:
    """One good node, then one that raises ``error`` the first time it is called."""
    raised: list[bool] = []

    def good(state: State) -> dict[str, Any]:
        note("good")
        return {"log": ["good"]}

    def bad(state: State) -> dict[str, Any]:
        note("bad")
        if not raised:
            raised.append(True)
            raise error
        return {"log": ["bad"]}

    graph = StateGraph(State)
    graph.add_node("good", good)
    graph.add_node("bad", bad)
    graph.add_edge(START, "good")
    graph.add_edge("good", "bad")
    graph.add_edge("bad", END)
    return graph
