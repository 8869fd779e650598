"""A wrapped graph behaves as the plain one, and its calls are runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from pyrula_core import (
    DurableInvocationCancelled,
    DurableInvocationError,
    InterruptConflictError,
    Registry,
    RetryPolicy,
    RunConflictError,
    RunNotWaitingError,
    current_run,
    once,
    open_store,
    step,
)
from pyrula_core.ports import Store
from pyrula_langgraph import (
    DurableGraph,
    GraphUnsupported,
    NodeOptions,
    ThreadBusy,
    durable,
)
from tests.langgraph.graphs import State, asking, commanding, failing, looped

Wrap = Callable[..., DurableGraph]
START_STATE: dict[str, Any] = {"log": [], "n": 0}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def wrap(store: Store) -> Wrap:
    registry = Registry()

    def wrapped(graph: Any, **options: Any) -> DurableGraph:
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        return durable(compiled, name="bot", store=store, registry=registry, **options)

    return wrapped


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


@pytest.mark.parametrize("build", [looped, commanding])
async def test_ainvoke_returns_what_the_plain_graph_returns(wrap: Wrap, build: Any) -> None:
    plain = await build(ignore).compile().ainvoke(START_STATE)
    assert await wrap(build(ignore)).ainvoke(START_STATE, on("t")) == plain


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "debug", ["updates", "custom"]])
async def test_astream_yields_what_the_plain_graph_yields(wrap: Wrap, mode: Any) -> None:
    def shape(chunks: list[Any]) -> list[Any]:
        return [str(type(chunk)) if mode in ("tasks", "debug") else chunk for chunk in chunks]

    bot = wrap(looped(ignore))
    saved = looped(ignore).compile(checkpointer=InMemorySaver())
    plain = [chunk async for chunk in saved.astream(START_STATE, on("t"), stream_mode=mode)]
    ours = [chunk async for chunk in bot.astream(START_STATE, on("t"), stream_mode=mode)]
    assert shape(ours) == shape(plain)


async def test_streaming_with_subgraphs_and_v2_parts_is_the_same(wrap: Wrap) -> None:
    options: dict[str, Any] = {"stream_mode": "updates", "subgraphs": True, "version": "v2"}

    def flat(part: Any) -> Any:
        return (part["type"], [each.partition(":")[0] for each in part["ns"]], part["data"])

    plain = [
        flat(part) async for part in looped(ignore).compile().astream(START_STATE, **options)
    ]
    ours = [
        flat(part)
        async for part in wrap(looped(ignore)).astream(START_STATE, on("t"), **options)
    ]
    assert ours == plain


def test_sync_invoke_and_stream_run_in_the_calling_thread(wrap: Wrap) -> None:
    import threading

    threads: list[str] = []

    def node(state: State) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return {"log": ["x"]}

    bot = wrap(one_node(node))
    assert bot.invoke(START_STATE, on("a")) == {"log": ["x"], "n": 0}
    assert list(bot.stream(START_STATE, on("b"), stream_mode="updates")) == [
        {"node": {"log": ["x"]}}
    ]
    assert set(threads) == {threading.current_thread().name}


async def test_the_wrapped_graph_is_not_changed(wrap: Wrap) -> None:
    graph = looped(ignore).compile()
    before = {name: node.__dict__.copy() for name, node in graph.nodes.items()}
    await wrap(graph).ainvoke(START_STATE, on("t"))
    assert graph.checkpointer is None
    for name, node in graph.nodes.items():
        assert node.bound is before[name]["bound"]
        assert type(node.node).__name__ != "DurableNode"


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
        except Exception:  # noqa: BLE001
            return {"log": ["went on without approval"]}
        return {"log": ["approved"]}

    with pytest.raises(DurableInvocationError) as caught:
        await wrap(one_node(node)).run_and_await(START_STATE, run_id="r")
    assert caught.value.code == "interrupt_swallowed"


async def test_an_error_is_recorded_as_agent_error_and_raised_as_itself(wrap: Wrap) -> None:
    bot = wrap(failing(ignore, LookupError("no row")))
    with pytest.raises(LookupError, match="no row"):
        await bot.ainvoke(START_STATE, {**on("t"), "metadata": {"run_id": "r"}})
    view = await bot.client.describe("bot", "r")
    assert view.error is not None
    assert (view.status, view.error.code) == ("error", "agent_error")
    assert view.error.error_type == "builtins:LookupError"
    assert view.error.detail["steps"] == ["2.bad"]
    with pytest.raises(DurableInvocationError) as caught:
        await bot.run_and_await(START_STATE, thread_id="t", run_id="r")
    assert caught.value.code == "agent_error"


async def test_the_next_call_on_a_failed_thread_goes_on_from_the_failed_node(wrap: Wrap) -> None:
    calls: list[str] = []
    bot = wrap(failing(calls.append, ValueError("once")))
    with pytest.raises(ValueError, match="once"):
        await bot.ainvoke(START_STATE, on("t"))
    assert (await bot.ainvoke(None, on("t")))["log"] == ["good", "bad"]
    assert calls == ["good", "bad", "bad"]


async def test_a_graph_that_never_ends_fails_with_agent_error(wrap: Wrap) -> None:
    graph = StateGraph(State)
    graph.add_node("again", lambda state: {"log": ["x"]})
    graph.add_edge(START, "again")
    graph.add_edge("again", "again")
    bot = wrap(graph)
    with pytest.raises(GraphRecursionError):
        await bot.ainvoke(START_STATE, {**on("t"), "recursion_limit": 5})
    with pytest.raises(DurableInvocationError) as caught:
        await bot.run_and_await(START_STATE, run_id="r", config={"recursion_limit": 5})
    assert caught.value.code == "agent_error"


async def test_a_router_that_fails_does_not_become_a_success_on_the_next_call(wrap: Wrap) -> None:
    broken = [True]

    def route(state: State) -> str:
        if broken:
            broken.pop()
            raise ValueError("router")
        return "second"

    graph = StateGraph(State)
    graph.add_node("first", lambda state: {"log": ["first"]})
    graph.add_node("second", lambda state: {"log": ["second"]})
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", route, ["second"])
    bot = wrap(graph)
    with pytest.raises(ValueError, match="router"):
        await bot.ainvoke(START_STATE, on("t"))
    assert (await bot.ainvoke(None, on("t")))["log"] == ["first", "second"]


async def test_report_43_a_value_that_cannot_be_recorded_fails_the_run_naming_it(
    wrap: Wrap,
) -> None:
    calls: list[str] = []
    graph = StateGraph(State)
    graph.add_node("make", lambda state: {"log": [object()]})
    graph.add_node("after", lambda state: calls.append("after"))
    graph.add_edge(START, "make")
    graph.add_edge("make", "after")
    with pytest.raises(DurableInvocationError) as caught:
        await wrap(graph).run_and_await(START_STATE, run_id="r")
    assert caught.value.code == "result_not_serializable"
    for word in ("make", "log", "object"):
        assert word in str(caught.value)
    assert calls == []


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
        except Exception:  # noqa: BLE001
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


async def test_the_same_run_id_is_the_same_run_and_other_input_is_a_conflict(
    wrap: Wrap,
) -> None:
    calls: list[str] = []
    bot = wrap(looped(calls.append))
    first = await bot.run_and_await(START_STATE, run_id="r")
    assert await bot.run_and_await(START_STATE, run_id="r") == first
    assert calls.count("a") == 3
    with pytest.raises(RunConflictError):
        await bot.run_and_await({"log": ["other"], "n": 0}, run_id="r")


async def test_options_reach_their_node_and_its_retries_have_one_owner(wrap: Wrap) -> None:
    from langgraph.types import RetryPolicy as GraphRetryPolicy

    tries: list[str] = []

    def flaky(state: State) -> dict[str, Any]:
        tries.append("flaky")
        if len(tries) < 3:
            raise ConnectionError
        return {"log": ["flaky"]}

    graph = StateGraph(State)
    graph.add_node("flaky", flaky, retry_policy=GraphRetryPolicy(max_attempts=3))
    graph.add_edge(START, "flaky")
    policy = RetryPolicy(max_attempts=3, initial_backoff=0.0)
    bot = wrap(graph, nodes={"fl*": NodeOptions(retry=policy)})
    assert (await bot.run_and_await(START_STATE, run_id="r")).output["log"] == ["flaky"]
    assert tries == ["flaky"] * 3
    with pytest.raises(ValueError, match="match no node"):
        wrap(graph, nodes={"flakey": NodeOptions()})


async def test_a_node_timeout_is_an_ordinary_failure(wrap: Wrap) -> None:
    async def slow(state: State) -> dict[str, Any]:
        await asyncio.sleep(30)
        return {}

    bot = wrap(one_node(slow), nodes={"node": NodeOptions(timeout=0.02)})
    with pytest.raises(DurableInvocationError) as caught:
        await bot.run_and_await(START_STATE, run_id="r")
    assert isinstance(caught.value.__cause__, TimeoutError)


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


async def test_something_that_is_not_a_compiled_graph_is_refused(store: Store) -> None:
    with pytest.raises(GraphUnsupported):
        durable(looped(ignore), name="x", store=store)  # type: ignore[arg-type]


async def test_state_can_be_edited_between_turns(wrap: Wrap) -> None:
    bot = wrap(looped(ignore))
    await bot.ainvoke(START_STATE, on("t"))
    await bot.aupdate_state(on("t"), {"log": ["edited"]}, as_node="outer")
    assert (await bot.aget_state(on("t"))).values["log"][-1] == "edited"


async def test_events_stream_as_from_the_compiled_graph(wrap: Wrap) -> None:
    names = [
        event["name"]
        async for event in wrap(one_node(lambda state: {"log": ["x"]})).astream_events(
            START_STATE, on("t"), version="v2"
        )
        if event["event"] == "on_chain_end"
    ]
    assert "node" in names


async def test_context_reaches_the_nodes_and_survives_a_question(wrap: Wrap) -> None:
    import dataclasses

    from langgraph.runtime import Runtime

    seen: list[str] = []

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        seen.append(runtime.context.user)
        interrupt("?")
        return {"log": [runtime.context.user]}

    @dataclasses.dataclass
    class Who:
        user: str

    graph = StateGraph(State, context_schema=Who)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    bot = wrap(graph)
    asked = await bot.run_and_await(START_STATE, run_id="r", context=Who("ann"))
    done = await bot.answer("r", {asked.interrupts[0].id: 1})
    assert done.output["log"] == ["ann"]
    assert seen == ["ann", "ann"]
