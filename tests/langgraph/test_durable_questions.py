"""Questions, answers, pause and cancel on a wrapped graph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from pyrula_core import (
    DurableInvocationCancelled,
    DurableInvocationError,
    InterruptConflictError,
    RunNotWaitingError,
    UnknownValueType,
    current_run,
    once,
    step,
)
from pyrula_langgraph import (
    GraphChanged,
    ThreadBusy,
)
from tests.langgraph.graphs import (
    START_STATE,
    State,
    Wrap,
    asking,
    ignore,
    looped,
    on,
    one_node,
)


async def test_a_run_is_interrupted_answered_and_completed(wrap: Wrap) -> None:
    calls: list[str] = []
    bot = wrap(asking(calls.append))
    asked = await bot.run_and_await(START_STATE, thread_id="t", run_id="r")
    assert asked.status == "interrupted"
    question = asked.interrupts[0]
    assert (question.value, question.node) == ({"q": 0}, "ask0")
    done = await bot.answer("r", {question.id: "yes"})
    assert done.output == {"log": ["0:yes"], "n": 0}
    assert calls == ["ask0", "ask0"]
    assert (await bot.answer("r", {question.id: "yes"})).output == done.output
    with pytest.raises(InterruptConflictError):
        await bot.answer("r", {question.id: "no"})


@pytest.mark.parametrize("answer", [None, {}, [], 0, "", False, {"a" * 32: 1}])
async def test_every_value_is_an_answer(wrap: Wrap, answer: Any) -> None:
    seen: list[Any] = []

    def node(state: State) -> dict[str, Any]:
        seen.append(interrupt("?"))
        return {"log": ["x"]}

    bot = wrap(one_node(node))
    asked = await bot.run_and_await(START_STATE, run_id="r")
    assert (await bot.answer("r", {asked.interrupts[0].id: answer})).status == "complete"
    assert seen == [answer]


async def test_parallel_questions_can_be_answered_one_by_one(wrap: Wrap) -> None:
    bot = wrap(asking(ignore, nodes=3))
    outcome = await bot.run_and_await(START_STATE, run_id="r")
    assert len(outcome.interrupts) == 3
    for left in (2, 1, 0):
        question = outcome.interrupts[0]
        outcome = await bot.answer("r", {question.id: question.value["q"]})
        assert len(outcome.interrupts) == left
    assert sorted(outcome.output["log"]) == ["0:0", "1:1", "2:2"]


async def test_the_calls_of_a_chat_app_work_as_on_the_compiled_graph(wrap: Wrap) -> None:
    bot = wrap(asking(ignore))
    asked = await bot.ainvoke(START_STATE, on("t"))
    assert asked["__interrupt__"][0].value == {"q": 0}
    state = await bot.aget_state(on("t"))
    assert (state.next, len(state.interrupts)) == (("ask0",), 1)
    assert await bot.ainvoke(Command(resume="a"), on("t")) == {"log": ["0:a"], "n": 0}
    assert (await bot.aget_state(on("t"))).next == ()
    again = await bot.ainvoke({"log": ["turn2"]}, on("t"))
    assert again["log"] == ["0:a", "turn2"]
    assert len([each async for each in bot.aget_state_history(on("t"))]) == 5


async def test_report_8_a_single_answer_to_several_questions_is_refused_listing_them(
    wrap: Wrap,
) -> None:
    bot = wrap(asking(ignore, nodes=2))
    asked = await bot.ainvoke(START_STATE, on("t"))
    with pytest.raises(RunNotWaitingError) as caught:
        await bot.ainvoke(Command(resume="x"), on("t"))
    for question in asked["__interrupt__"]:
        assert question.id in str(caught.value)
    with pytest.raises(RunNotWaitingError):
        await bot.ainvoke(Command(resume="x"), on("nobody"))


async def test_report_4_the_same_answer_twice_does_not_answer_the_next_question(
    wrap: Wrap,
) -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [interrupt("pay 10?"), interrupt("pay 1000000?")]}

    bot = wrap(one_node(node))
    first = await bot.run_and_await(START_STATE, run_id="r")
    second = await bot.answer("r", {first.interrupts[0].id: "yes"})
    again = await bot.answer("r", {first.interrupts[0].id: "yes"})
    assert second.interrupts[0].value == again.interrupts[0].value == "pay 1000000?"
    done = await bot.answer("r", {again.interrupts[0].id: "no"})
    assert done.output["log"] == ["yes", "no"]


async def test_report_1_a_step_above_an_interrupt_runs_once(wrap: Wrap) -> None:
    effects: list[str] = []
    keys: set[str] = set()

    async def node(state: State) -> dict[str, Any]:
        keys.add(current_run().idempotency_key)
        await step("charge", effects.append, "charge")
        await once("mail", effects.append, "mail")
        return {"log": [interrupt("ok?")]}

    bot = wrap(one_node(node))
    asked = await bot.run_and_await(START_STATE, run_id="r")
    done = await bot.answer("r", {asked.interrupts[0].id: "yes"})
    assert done.output["log"] == ["yes"]
    assert effects == ["charge", "mail"]
    assert keys == {"bot/r/1.node"}


async def test_report_14_a_swallowed_interrupt_fails_the_run_loudly(wrap: Wrap) -> None:
    def node(state: State) -> dict[str, Any]:
        try:
            interrupt("approve?")
        except Exception:
            return {"log": ["went on without approval"]}
        return {"log": ["approved"]}

    with pytest.raises(DurableInvocationError) as caught:
        await wrap(one_node(node)).run_and_await(START_STATE, run_id="r")
    assert caught.value.code == "interrupt_swallowed"


async def test_pause_stops_before_the_next_node_and_resume_goes_on(wrap: Wrap) -> None:
    calls: list[str] = []

    async def pauses(state: State) -> dict[str, Any]:
        calls.append("pauses")
        await bot.pause("r")
        return {"log": ["pauses"]}

    graph = StateGraph(State)
    graph.add_node("pauses", pauses)
    graph.add_node("after", lambda state: {"log": ["after"]})
    graph.add_edge(START, "pauses")
    graph.add_edge("pauses", "after")
    bot = wrap(graph)
    assert (await bot.run_and_await(START_STATE, run_id="r")).status == "paused"
    await bot.resume("r")
    done = await bot.client.result("bot", "r")
    assert done.output["log"] == ["pauses", "after"]
    assert calls == ["pauses"]


async def test_cancel_reaches_a_nested_node_and_a_swallowed_cancel_saves_nothing(
    wrap: Wrap,
) -> None:
    calls: list[str] = []

    async def inner_one(state: State) -> dict[str, Any]:
        await bot.cancel("r", reason="user")
        return {"log": ["one"]}

    def inner_two(state: State) -> dict[str, Any]:
        calls.append("two")
        return {"log": ["two"]}

    inner = StateGraph(State)
    inner.add_node("one", inner_one)
    inner.add_node("two", inner_two)
    inner.add_edge(START, "one")
    inner.add_edge("one", "two")
    child = inner.compile()

    async def outer(state: State) -> dict[str, Any]:
        try:
            await child.ainvoke(state)
        except Exception:
            calls.append("swallowed")
        return {"log": ["outer"]}

    bot = wrap(one_node(outer))
    with pytest.raises(DurableInvocationCancelled):
        await bot.run_and_await(START_STATE, run_id="r")
    assert "two" not in calls
    assert (await bot.client.describe("bot", "r")).status == "cancelled"


async def test_a_new_input_on_a_thread_that_asks_is_refused_or_interrupts(
    wrap: Wrap,
) -> None:
    bot = wrap(asking(ignore))
    first = await bot.run_and_await(START_STATE, thread_id="t", run_id="r1")
    with pytest.raises(ThreadBusy) as caught:
        await bot.run_and_await(START_STATE, thread_id="t", run_id="r2")
    assert caught.value.code == "thread_busy"
    assert first.interrupts[0].id in str(caught.value)
    pushy = wrap(asking(ignore), on_busy="interrupt")
    second = await pushy.run_and_await(START_STATE, thread_id="t", run_id="r3")
    assert second.status == "interrupted"
    assert (await bot.client.describe("bot", "r1")).status == "cancelled"


async def test_a_static_breakpoint_holds_the_run_until_it_is_passed(wrap: Wrap) -> None:
    calls: list[str] = []
    bot = wrap(looped(calls.append).compile(interrupt_before=["w"]))
    stopped = await bot.run_and_await(START_STATE, run_id="r")
    assert (stopped.status, len(stopped.interrupts)) == ("interrupted", 1)
    assert "w0" not in calls
    again = await bot.run_and_await(START_STATE, run_id="r")
    assert again.interrupts == stopped.interrupts
    done = await bot.answer("r", {stopped.interrupts[0].id: None})
    assert done.status == "complete"
    assert calls.count("w0") == 1


async def test_a_large_output_is_stored_once_and_stays_what_it_was(wrap: Wrap) -> None:
    bot = wrap(one_node(lambda state: {"log": ["x" * 10_000]}))
    first = await bot.run_and_await(START_STATE, thread_id="t", run_id="r1")
    await bot.run_and_await({"log": ["turn two"]}, thread_id="t", run_id="r2")
    again = await bot.run_and_await(START_STATE, thread_id="t", run_id="r1")
    assert again == first
    last = (await bot.client.history("bot", "r1"))[-1]
    assert last.payload is not None
    assert len(last.payload.body) < 1000
    await bot.saver.adelete_thread("t")
    with pytest.raises(UnknownValueType, match="deleted"):
        await bot.client.result("bot", "r1")


def test_step_and_once_work_in_sync_nodes_too(wrap: Wrap) -> None:
    effects: list[str] = []

    def node(state: State) -> dict[str, Any]:
        paid = once("charge", lambda: effects.append("charge") or "paid")
        step("mail", effects.append, "mail")
        return {"log": [paid, interrupt("ok?")]}

    bot = wrap(one_node(node))
    asked = bot.invoke(START_STATE, on("t"))
    assert asked["__interrupt__"][0].value == "ok?"
    assert bot.invoke(Command(resume="yes"), on("t"))["log"] == ["paid", "yes"]
    assert effects == ["charge", "mail"]


async def test_report_80_a_run_that_leads_to_a_missing_node_is_refused_and_stays(
    wrap: Wrap,
) -> None:
    def chain(*names: str) -> StateGraph[Any, Any, Any, Any]:
        graph, last = StateGraph(State), START
        for name in names:
            graph.add_node(name, lambda state, name=name: {"log": [name]})
            graph.add_edge(last, name)
            last = name
        return graph

    old = wrap(chain("fetch", "think", "act").compile(interrupt_before=["think"]))
    asked = await old.run_and_await(START_STATE, thread_id="t", run_id="r")
    new = wrap(chain("fetch", "reason", "act"))
    with pytest.raises(GraphChanged) as caught:
        await new.answer("r", {asked.interrupts[0].id: None})
    assert caught.value.code == "graph_changed"
    assert "think" in str(caught.value)
    assert "reason" in str(caught.value)
    restored = wrap(chain("fetch", "think", "act"))
    async with asyncio.timeout(60):
        done = await restored.run_and_await(START_STATE, thread_id="t", run_id="r")
    assert done.output["log"] == ["fetch", "think", "act"]
