"""A wrapped graph behaves as the plain one, and its calls are runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from pyrula_core import (
    DurableInvocationError,
    RetryPolicy,
    RetryRefusedError,
    RunConflictError,
    current_run,
    step,
)
from pyrula_core.ports import Store
from pyrula_langgraph import (
    GraphUnsupported,
    NodeOptions,
    durable,
)
from tests.langgraph.graphs import (
    START_STATE,
    State,
    Wrap,
    asking,
    commanding,
    failing,
    ignore,
    looped,
    on,
    one_node,
)


@pytest.mark.parametrize("build", [looped, commanding])
async def test_ainvoke_returns_what_the_plain_graph_returns(wrap: Wrap, build: Any) -> None:
    plain = await build(ignore).compile().ainvoke(START_STATE)
    assert await wrap(build(ignore)).ainvoke(START_STATE, on("t")) == plain


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "debug", ["updates", "custom"]])
async def test_astream_yields_what_the_plain_graph_yields(wrap: Wrap, mode: Any) -> None:
    def shape(chunks: list[Any]) -> list[Any]:
        # The three workers end in any order.
        chunks = sorted(chunks, key=str) if mode != "values" else chunks
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

    plain = [flat(part) async for part in looped(ignore).compile().astream(START_STATE, **options)]
    ours = [
        flat(part) async for part in wrap(looped(ignore)).astream(START_STATE, on("t"), **options)
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


async def test_a_retry_goes_on_from_the_failed_node_and_serves_its_sub_steps(wrap: Wrap) -> None:
    effects: list[str] = []
    keys: list[str] = []
    broken = [True]

    async def node(state: State) -> dict[str, Any]:
        keys.append(current_run().idempotency_key)
        await step("charge", effects.append, "charge")
        if broken:
            broken.pop()
            raise ConnectionError("down")
        return {"log": ["node"]}

    graph = StateGraph(State)
    graph.add_node("before", lambda state: effects.append("before"))
    graph.add_node("node", node)
    graph.add_edge(START, "before")
    graph.add_edge("before", "node")
    bot = wrap(graph)
    with pytest.raises(DurableInvocationError):
        await bot.run_and_await(START_STATE, thread_id="t", run_id="r")
    outcome = await bot.retry("r")
    assert outcome.run_id == "r:r"
    assert outcome.output["log"] == ["node"]
    assert effects == ["before", "charge"]
    assert keys == ["bot/r/2.node"] * 2
    with pytest.raises(RetryRefusedError) as caught:
        await bot.retry("r")
    assert caught.value.code == "retry_stale"


def test_the_calls_by_run_id_have_a_sync_form(wrap: Wrap) -> None:
    bot = wrap(asking(ignore))
    asked = bot.sync.run_and_await(START_STATE, run_id="r")
    done = bot.sync.answer("r", {asked.interrupts[0].id: "yes"})
    assert done.output["log"] == ["0:yes"]
