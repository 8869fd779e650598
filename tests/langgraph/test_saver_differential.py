from __future__ import annotations

import operator
import random
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, Send, interrupt

from pyrula_langgraph.saver import JournalSaver
from pyrula_langgraph.serde import GraphSerde
from tests.langgraph.saver_values import WORDS, exact, message


def merge(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    merged = {**left, **right}
    return {key: value for key, value in merged.items() if value != "drop"}


def window(left: list[Any], right: list[Any]) -> list[Any]:
    return (left + right)[-5:]


def fold(state: list[Any], writes: list[Any]) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    step: int
    messages: Annotated[list[Any], add_messages]
    log: Annotated[list[Any], operator.add]
    numbers: Annotated[list[int], operator.add]
    text: Annotated[str, operator.add]
    book: Annotated[dict[str, Any], merge]
    recent: Annotated[list[Any], window]
    delta: Annotated[list[Any], DeltaChannel(fold, snapshot_frequency=3)]
    plain: Any


class Script:
    """The choices of one run: the same seed chooses the same, whatever saver watches."""

    def __init__(self, seed: int, steps: int) -> None:
        self.seed = seed
        self.steps = steps

    def random(self, *place: Any) -> random.Random:
        return random.Random(f"{self.seed}/{place}")


def edit(rng: random.Random, state: State) -> dict[str, Any]:
    """Return an update, sometimes after changing the state in place."""
    step = state.get("step", 0)
    update: dict[str, Any] = {"step": step + 1}
    messages = state.get("messages") or []
    if messages and rng.random() < 0.3:
        target = rng.choice(messages)
        target.content = f"changed in place at {step}"
        target.additional_kwargs["touched"] = {"at": [step]}
    kind = rng.choice(["say", "say", "remove", "replace", "many"])
    if kind == "remove" and messages:
        update["messages"] = [RemoveMessage(id=rng.choice(messages).id)]
    elif kind == "replace" and messages:
        update["messages"] = [AIMessage("replaced", id=rng.choice(messages).id)]
    else:
        count = rng.randint(1, 9 if kind == "many" else 2)
        update["messages"] = [message(rng, f"{step}-{place}") for place in range(count)]
    for name in ("log", "numbers", "text", "book", "recent", "delta", "plain"):
        if rng.random() < 0.5:
            update[name] = CHANGES[name](rng, state)
    return update


def log(rng: random.Random, state: State) -> list[Any]:
    if state.get("log") and rng.random() < 0.3:
        state["log"][0]["in place"] = rng.random()
    return [{"words": rng.choices(WORDS, k=2), "n": rng.random()}]


def plain(rng: random.Random, state: State) -> Any:
    old = state.get("plain")
    if isinstance(old, list) and rng.random() < 0.7:
        return [*old, rng.choice([*WORDS, {"a": [1]}])]
    if isinstance(old, dict) and rng.random() < 0.7:
        grown = {**old, rng.choice("abcdef"): rng.choice([WORDS, 3, {"x": WORDS * 3}, [1] * 99])}
        return dict(sorted(grown.items(), reverse=rng.random() < 0.2))
    if isinstance(old, str) and rng.random() < 0.7:
        return old + rng.choice(WORDS)
    return rng.choice([None, [], {}, "x" * 1100, list(range(70)), WORDS, {"k": WORDS * 4}, {1: 2}])


CHANGES: dict[str, Any] = {
    "log": log,
    "numbers": lambda rng, _: [rng.randint(0, 2**70) for _ in range(rng.randint(0, 30))],
    "text": lambda rng, _: rng.choice(WORDS) * rng.randint(0, 20),
    "book": lambda rng, _: {rng.choice("abcdefgh"): rng.choice([*WORDS, "drop", [1], WORDS])},
    "recent": lambda rng, _: [rng.choice(WORDS)],
    "delta": lambda rng, _: [rng.choice(WORDS) * 3],
    "plain": plain,
}


def build(script: Script, saver: BaseCheckpointSaver[Any]) -> Any:
    """Return a graph with a loop, a fan-out of Sends, a subgraph and now and then a question."""

    def work(state: State) -> Any:
        return edit(script.random("work", state.get("step", 0)), state)

    def ask(state: State) -> Any:
        if script.random("ask", state["step"]).random() < 0.3:
            return {"log": [{"answer": interrupt({"step": state["step"]})}]}
        return {"numbers": [1]}

    def part(state: dict[str, Any]) -> Any:
        return {"log": [{"part": state["place"], "of": len(state["messages"])}]}

    def inner(state: State) -> Any:
        return {"text": "inner" * 9, "messages": [HumanMessage("in", id=f"in-{state['step']}")]}

    def route(state: State) -> Any:
        if state["step"] >= script.steps:
            return END
        rng = script.random("route", state["step"])
        where = rng.choice(["work", "ask", "sub", "send"])
        if where == "send":
            return [Send("part", {"place": n, "messages": state["messages"]}) for n in range(3)]
        return where

    sub = StateGraph(State)
    sub.add_node("inner", inner)
    sub.add_edge(START, "inner")
    graph = StateGraph(State)
    for name, node in (("work", work), ("ask", ask), ("part", part), ("sub", sub.compile())):
        graph.add_node(name, node)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", route, ["work", "ask", "part", "sub", END])
    for name in ("ask", "part", "sub"):
        graph.add_edge(name, "work")
    return graph.compile(checkpointer=saver)


class Twins:
    """One graph run beside itself: over the saver under test, and over LangGraph's in memory."""

    def __init__(self, script: Script, url: str) -> None:
        self.script = script
        self.url = url
        self.oracle = InMemorySaver(serde=GraphSerde())
        self.saver = JournalSaver(url)
        self.ids: list[dict[str, str]] = []
        self.build()

    def build(self) -> None:
        self.graphs = [build(self.script, saver) for saver in (self.oracle, self.saver)]

    def reopen(self) -> None:
        if self.url.startswith("sqlite"):
            self.saver.close()
            self.saver = JournalSaver(self.url)
            self.build()

    def each(self, act: Any) -> None:
        results = [without_ids(act(graph)) for graph in self.graphs]
        assert results[0] == results[1]
        self.compare()

    def compare(self, limit: int | None = 6) -> None:
        histories = [list(graph.get_state_history(config(), limit=limit)) for graph in self.graphs]
        assert len(histories[0]) == len(histories[1])
        for mine, theirs in zip(histories[1], histories[0], strict=True):
            assert differing(mine.values, theirs.values) == {}
            assert plain_view(mine) == plain_view(theirs)

    def at(self, graph: Any, place: int) -> Any:
        return list(graph.get_state_history(config()))[place].config


def without_ids(result: Any) -> Any:
    # An interrupt's id is made of its task's, and that of the checkpoint's random one.
    if isinstance(result, dict) and "__interrupt__" in result:
        return {**result, "__interrupt__": [i.value for i in result["__interrupt__"]]}
    return result


def differing(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    names = [*mine, *(name for name in theirs if name not in mine)]
    pairs = {name: (mine.get(name), theirs.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if exact(pair[0]) != exact(pair[1])}


def plain_view(snapshot: Any) -> Any:
    tasks = [(t.name, repr(t.error), [i.value for i in t.interrupts]) for t in snapshot.tasks]
    source = snapshot.metadata["source"], snapshot.metadata["step"]
    return exact(snapshot.values), snapshot.next, source, tasks


def config() -> Any:
    return {"configurable": {"thread_id": "t"}, "recursion_limit": 200}


def start() -> Any:
    return {"step": 0, "messages": [HumanMessage("begin", id="begin")], "book": {"a": WORDS[0]}}


def invoke(graph: Any, value: Any, where: Any) -> Any:
    # With durability "async" a value is recorded while the next node may be changing it.
    return graph.invoke(value, where, durability="sync")


def act_at_random(twins: Twins, rng: random.Random) -> None:
    """Do one thing a user may do to a thread."""
    graph = twins.graphs[0]
    state = graph.get_state(config())
    if state.interrupts:
        answer = {i.value["step"]: rng.random() for i in state.interrupts}
        value = next(iter(answer.values()))
        twins.each(lambda g: invoke(g, Command(resume=value), config()))
        return
    kind = rng.choice(["turn", "fork", "update", "overwrite", "travel", "reopen", "copy"])
    history = len(list(graph.get_state_history(config())))
    place = rng.randrange(history)
    match kind:
        case "turn":
            twins.each(lambda g: invoke(g, start(), config()))
        case "fork" | "travel":
            twins.each(lambda g: invoke(g, None, {**twins.at(g, place), "recursion_limit": 200}))
        case "update":
            update = {"log": [{"u": WORDS[3]}], "text": "updated", "delta": ["u"]}
            twins.each(lambda g: settled(g.update_state(twins.at(g, place), update, "work")))
        case "overwrite":
            update = {"log": Overwrite([{"only": 1}]), "delta": Overwrite(["only"])}
            twins.each(lambda g: settled(g.update_state(config(), update, "work")))
        case "copy":
            twins.each(lambda g: settled(g.update_state(twins.at(g, place), None, "__copy__")))
        case "reopen":
            twins.reopen()
            twins.compare()


def settled(config: Any) -> None:
    """Drop a config: checkpoint ids differ between the two savers."""
    assert config["configurable"]["checkpoint_id"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_histories_equal_those_of_langgraphs_own_saver(kind, seed, tmp_path):
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/s.db"
    rng = random.Random(seed)
    twins = Twins(Script(seed, steps=rng.randint(3, 9)), url)
    twins.each(lambda graph: invoke(graph, start(), config()))
    for _ in range(4):
        act_at_random(twins, rng)
    twins.reopen()
    twins.compare(limit=None)
    twins.saver.close()
