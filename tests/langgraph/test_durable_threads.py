"""Threads: one open run at a time, edits of its state, streams left early, odd graphs."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langgraph.channels import UntrackedValue
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from pyrula_core import DurableInvocationError, once
from pyrula_langgraph import ThreadBusy
from tests.langgraph.graphs import START_STATE, State, Wrap, asking, ignore, on, one_node


def two_nodes(first: Any, second: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(State)
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    return graph


async def test_report_17_an_edit_of_the_state_of_an_open_run_does_not_start_it_again(
    wrap: Wrap,
) -> None:
    effects: list[str] = []

    async def first(state: State) -> dict[str, Any]:
        effects.append("first")
        return {"log": ["first"]}

    async def second(state: State) -> dict[str, Any]:
        await once("charge", effects.append, "charge")
        return {"log": [interrupt("ok?")]}

    bot = wrap(two_nodes(first, second))
    await bot.ainvoke(START_STATE, on("t"))
    await bot.aupdate_state(on("t"), {"log": ["EDIT"]})
    asked = await bot.ainvoke(None, on("t"))
    assert asked["__interrupt__"][0].value == "ok?"
    assert (await bot.ainvoke(Command(resume="yes"), on("t")))["log"] == ["first", "EDIT", "yes"]
    assert effects == ["first", "charge"]


async def test_going_on_with_a_failed_thread_serves_what_its_node_had_done(wrap: Wrap) -> None:
    effects: list[str] = []

    async def node(state: State) -> dict[str, Any]:
        await once("charge", effects.append, "charge")
        if len(effects) == 1:
            effects.append("failed")
            raise ValueError("first time")
        return {"log": ["done"]}

    bot = wrap(one_node(node))
    with pytest.raises(ValueError, match="first time"):
        await bot.ainvoke(START_STATE, on("t"))
    assert (await bot.ainvoke(None, on("t")))["log"] == ["done"]
    assert effects == ["charge", "failed"]


async def test_report_71_two_inputs_at_once_on_a_thread_give_one_run(wrap: Wrap) -> None:
    bot = wrap(asking(ignore))
    answers = await asyncio.gather(
        *(bot.ainvoke(START_STATE, on("t")) for _ in range(4)), return_exceptions=True
    )
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert sum(isinstance(answer, ThreadBusy) for answer in answers) == 3
    assert len((await bot.runs()).rows) == 1


async def test_report_30_leaving_a_stream_early_leaves_the_run_open(wrap: Wrap) -> None:
    calls: list[str] = []

    def node(name: str) -> Any:
        def run(state: State) -> dict[str, Any]:
            calls.append(name)
            return {"log": [name]}

        return run

    bot = wrap(two_nodes(node("first"), node("second")))
    stream = bot.astream(START_STATE, on("t"), stream_mode="updates")
    assert await anext(stream) == {"first": {"log": ["first"]}}
    await stream.aclose()
    assert (await bot.runs()).rows[0].shown_status == "queued"
    assert (await bot.ainvoke(None, on("t")))["log"] == ["first", "second"]
    assert calls.count("first") == 1


async def test_events_come_from_every_node(wrap: Wrap) -> None:
    bot = wrap(two_nodes(lambda state: {"log": ["a"]}, lambda state: {"log": ["b"]}))
    names = [
        event["name"]
        async for event in bot.astream_events(START_STATE, on("t"), version="v2")
        if event["event"] == "on_chain_end"
    ]
    assert {"first", "second"} <= set(names)
    assert (await bot.runs()).rows[0].shown_status == "complete"


async def test_a_value_that_langgraph_never_saves_does_not_keep_the_run_from_ending(
    wrap: Wrap,
) -> None:
    class Live(TypedDict):
        n: int
        connection: Annotated[Any, UntrackedValue]

    graph = StateGraph(Live)
    graph.add_node("open", lambda state: {"connection": object(), "n": 1})
    graph.add_edge(START, "open")
    bot = wrap(graph)
    assert (await bot.ainvoke({"n": 0}, on("t")))["n"] == 1
    row = (await bot.runs()).rows[0]
    assert row.shown_status == "complete"
    assert (await bot.client.result("bot", row.key.run_id)).output == {"n": 1}


async def test_a_subgraph_that_is_not_saved_runs_inside_a_saved_one(wrap: Wrap) -> None:
    inner = one_node(lambda state: {"log": ["inner"]}).compile(checkpointer=False)
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_edge(START, "sub")
    assert (await wrap(graph).ainvoke(START_STATE, on("t")))["log"] == ["inner"]


async def test_a_run_without_a_thread_is_retried_on_its_own_state(wrap: Wrap) -> None:
    broken = [True]

    async def node(state: State) -> dict[str, Any]:
        if broken:
            broken.pop()
            raise ConnectionError("down")
        return {"log": ["done"]}

    bot = wrap(one_node(node))
    with pytest.raises(DurableInvocationError):
        await bot.run_and_await({"log": ["input"], "n": 0}, run_id="r")
    assert (await bot.retry("r")).output["log"] == ["input", "done"]
