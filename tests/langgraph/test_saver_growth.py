from __future__ import annotations

import operator
import random
import string
from typing import Annotated, Any, TypedDict

import apsw
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from pyrula_core.ports import ScanRecords
from pyrula_core.stores import MemoryStore
from pyrula_langgraph import saver_memory
from pyrula_langgraph.saver import JournalSaver


def kilobyte(place: int) -> str:
    return "".join(random.Random(place).choices(string.ascii_letters, k=1000))


def stored(store: MemoryStore) -> int:
    records = store.submit(ScanRecords("t", b"\x00", b"\xff")).result()
    return sum(len(key) + len(value) for key, value in records)


def merge(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {**left, **right}


def window(left: list[Any], right: list[Any]) -> list[Any]:
    return (left + right)[-50:]


class State(TypedDict, total=False):
    n: int
    document: str
    messages: Annotated[list[Any], add_messages]
    window: Annotated[list[Any], window]
    book: Annotated[dict[str, Any], merge]
    text: Annotated[str, operator.add]
    numbers: Annotated[list[int], operator.add]
    full: list[Any]
    whole: str
    nested: dict[str, Any]
    seen: Annotated[list[Any], operator.add]


def messages(state: State) -> Any:
    return {"messages": [HumanMessage(kilobyte(state["n"]), id=str(state["n"]))]}


def answers(state: State) -> Any:
    n = state["n"]
    calls = [{"name": "f", "args": {"n": n}, "id": str(n)}]
    return {"messages": [AIMessage(kilobyte(n), id=str(n), tool_calls=calls)]}


def grown_list(state: State) -> Any:
    return {"full": [*state.get("full", []), HumanMessage(kilobyte(state["n"]))]}


def grown_inside(state: State) -> Any:
    notes = [*state.get("nested", {}).get("notes", []), {"text": kilobyte(state["n"])}]
    return {"nested": {"notes": notes, "title": "t"}}


WORKS: dict[str, tuple[Any, State, int]] = {
    "messages": (messages, {}, 2_300),
    "answers": (answers, {}, 2_500),
    "messages beside a document": (messages, {"document": "d" * 100_000}, 2_700),
    "window": (lambda s: {"window": [HumanMessage(kilobyte(s["n"]))]}, {}, 2_900),
    "one key of two hundred": (
        lambda s: {"book": {f"key-{s['n'] % 200}": kilobyte(s["n"])}},
        {"book": {f"key-{place}": kilobyte(10**6 + place) for place in range(200)}},
        2_900,
    ),
    "text": (lambda s: {"text": kilobyte(s["n"])}, {}, 2_400),
    "numbers": (lambda s: {"numbers": [s["n"] * 2**40] * 9}, {}, 1_200),
    "a list returned in full": (grown_list, {}, 3_200),
    "a string returned in full": (
        lambda s: {"whole": s.get("whole", "") + kilobyte(s["n"])},
        {},
        3_200,
    ),
    "a list inside a dict": (grown_inside, {}, 4_000),
}


def build(work: Any, steps: int, saver: JournalSaver) -> Any:
    graph = StateGraph(State)
    graph.add_node("work", lambda state: {**work(state), "n": state["n"] + 1})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda s: "work" if s["n"] < steps else END)
    return graph.compile(checkpointer=saver)


def config(steps: int = 0) -> Any:
    return {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}


def bytes_of(work: Any, state: State, steps: int) -> int:
    store = MemoryStore()
    graph = build(work, steps, JournalSaver(store))
    graph.invoke({"n": 0, **state}, config(steps), durability="sync")
    return stored(store)


@pytest.mark.parametrize("name", WORKS)
def test_report_52_bytes_grow_with_what_is_added_and_not_with_the_state(name):
    work, state, per_step_max = WORKS[name]
    first, second, third, fourth = (bytes_of(work, state, 100 * n) for n in (1, 2, 3, 4))
    # A thousand bytes of payload a step, written with the task and referred to by the checkpoint.
    assert (fourth - first) / 300 < per_step_max
    assert fourth - third < 1.1 * (second - first)


def test_report_52_a_packet_that_carries_the_whole_state_does_not_store_it_again():
    def run(steps: int) -> int:
        store = MemoryStore()
        graph = StateGraph(State)
        graph.add_node("work", lambda s: {**messages(s), "n": s["n"] + 1})
        graph.add_node("tool", lambda packet: {"seen": [len(packet["state"]["messages"])]})
        graph.add_edge(START, "work")
        graph.add_conditional_edges(
            "work", lambda s: [Send("tool", {"call": 1, "state": dict(s)})], ["tool"]
        )
        graph.add_conditional_edges("tool", lambda s: "work" if s["n"] < steps else END)
        saver = JournalSaver(store)
        graph.compile(checkpointer=saver).invoke({"n": 0}, config(3 * steps), durability="sync")
        return stored(store)

    assert (run(150) - run(50)) / 100 < 6_000


def test_a_thousand_steps_of_a_kilobyte_take_less_than_three_megabytes(tmp_path):
    path = tmp_path / "s.db"
    saver = JournalSaver(f"sqlite:///{path}?durability=process")
    graph = build(messages, 1_000, saver)
    graph.invoke({"n": 0}, config(1_000), durability="sync")
    saver.close()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    assert path.stat().st_size < 3_000_000
    saver = JournalSaver(f"sqlite:///{path}?durability=process")
    found = saver.get_tuple(config())
    assert found is not None
    assert len(found.checkpoint["channel_values"]["messages"]) == 1_000
    saver.close()


def test_an_old_message_changed_in_place_is_stored_when_everything_is_verified():
    saver = JournalSaver("memory://")
    graph = StateGraph(State)

    def work(state: State) -> Any:
        if state["n"] == 1:
            state["messages"][0].additional_kwargs["deep"] = {"changed": [1]}
            state["messages"][0].__pydantic_extra__["extra"] = object
            saver.verify_next("t")
        return {"n": state["n"] + 1, "messages": [HumanMessage("x") for _ in range(300)]}

    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda s: "work" if s["n"] < 2 else END)
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"n": 0, "messages": [HumanMessage("first")]}, config(9), durability="sync")
    first = compiled.get_state(config()).values["messages"][0]
    assert first.additional_kwargs == {"deep": {"changed": [1]}}
    assert first.extra is object


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(saver_memory, "threads_max", 4)
    monkeypatch.setattr(saver_memory, "namespaces_max", 3)
    monkeypatch.setattr(saver_memory, "digests_max", 20)
    monkeypatch.setattr(saver_memory, "checkpoints_max", 5)
    saver = JournalSaver("memory://")
    graph = build(messages, 30, saver)
    for thread in range(9):
        at = {"configurable": {"thread_id": f"t{thread}"}, "recursion_limit": 99}
        result = graph.invoke({"n": 0}, at, durability="sync")
        assert graph.get_state(at).values == result
    memory = saver._session.memory
    assert len(memory._threads) == 4
    for remembered in memory._threads.values():
        assert len(remembered.digests) < 99
        assert len(remembered.batches) <= 5
    saver.forget("t8")
    assert "t8" not in memory._threads
