"""``durable``: wraps a compiled graph, and ``DurableGraph``, which stands in for it.

Owns the public face of the adapter. A call on it is a run: recorded before anything is executed,
driven in the calling task or thread, resumable by any process that wraps the same graph under the
same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol

from pyrula_core import (
    Client,
    DurableInvocationCancelled,
    DurableInvocationError,
    open_store,
)
from pyrula_core.adapter import (
    REGISTRY,
    Cancelled,
    Definition,
    Ending,
    Engine,
    Registry,
    StoodDown,
    SyncCalls,
    Waiting,
    lease_ttl_s,
    orphan_budget,
    run_sync,
)
from pyrula_core.model import RunKey, RunKind
from pyrula_core.ports import Claimed, Store
from pyrula_langgraph.admission import Admission, OnBusy
from pyrula_langgraph.agent_calls import AgentCalls, call_config
from pyrula_langgraph.clone import durable_clone, node_paths
from pyrula_langgraph.codec import GraphCodec
from pyrula_langgraph.errors import GraphUnsupported, ThreadBusy
from pyrula_langgraph.executor import GraphExecutor
from pyrula_langgraph.handoff import HandOff
from pyrula_langgraph.options import NodeOptions, unmatched
from pyrula_langgraph.retrying import retried_run
from pyrula_langgraph.saver import JournalSaver
from pyrula_langgraph.serde import GraphSerde
from pyrula_langgraph.state_access import StateAccess

__all__ = ["DurableGraph", "durable"]

# What a call may say about a run that has to survive the call: it is recorded with the input.
RECORDED = ("context", "interrupt_before", "interrupt_after")
# Checkpointers whose place the journal may take: none, or one that a restart would empty anyway.
REPLACEABLE = (type(None), bool, InMemorySaver, JournalSaver)
# What LangGraph takes and durability decides.
DECIDED = ("durability", "checkpoint_during", "control")


def durable(  # noqa: PLR0913 (one keyword an option)
    graph: Pregel[Any, Any, Any, Any],
    *,
    name: str,
    store: Store | str | None = None,
    version: str = "1",
    nodes: Mapping[str, NodeOptions] | None = None,
    default: NodeOptions = NodeOptions(),
    on_busy: OnBusy = "reject",
    configurable: frozenset[str] | set[str] = frozenset(),
    registry: Registry = REGISTRY,
    lease_ttl: float = lease_ttl_s,
    max_retries: int = orphan_budget,
) -> DurableGraph:
    """Return ``graph`` made durable, and register it as agent ``name``; the graph is not changed.

    ``store`` is a Store or its URL (default: the environment's PYRULA_STORE). ``nodes`` gives
    options by node name, glob or ``parent/child`` path. ``on_busy`` says what a new input does to
    an open run on its thread: ``reject`` raises ThreadBusy, ``interrupt`` cancels that run first.
    ``configurable`` names entries of ``config["configurable"]`` to record, so that a process that
    resumes a run has them; all others stay with the caller, since they may hold secrets.
    ``lease_ttl`` is how long, in seconds, a run stays with a process that is not heard of, and
    ``max_retries`` how often it may lose its process without recording a step in between.

    Raises GraphUnsupported for a graph that cannot be wrapped, ValueError for a pattern in
    ``nodes`` that matches no node.
    """
    check_wrappable(graph, name, nodes or {})
    opened = open_store(store) if store is None or isinstance(store, str) else store
    serde = GraphSerde().allow_from_graph(graph)
    saver = JournalSaver(opened, serde=serde)
    clone = durable_clone(graph, nodes=nodes, default=default)
    executor = GraphExecutor(clone, saver, GraphCodec(serde))
    registry.add(
        Definition(
            name=name,
            version=version,
            kind=RunKind.AGENT,
            executor=executor,
            input_codec=executor.codec,
            output_codec=executor.output_codec,
            retried=retried_run(executor.codec),
        )
    )
    client = Client(engine=Engine(opened, registry, lease_ttl=lease_ttl, max_retries=max_retries))
    admission = Admission(client, name, on_busy=on_busy, keep=frozenset(configurable))
    return DurableGraph(graph, executor, admission)


def check_wrappable(
    graph: Pregel[Any, Any, Any, Any], name: str, nodes: Mapping[str, NodeOptions]
) -> None:
    """Refuse a graph that cannot be made durable, and options that reach no node."""
    if not isinstance(graph, Pregel):
        raise GraphUnsupported(
            f"{type(graph).__name__} is not a compiled graph", hint="Pass graph.compile()"
        )
    if not isinstance(graph.checkpointer, REPLACEABLE):
        raise GraphUnsupported(
            f"graph {name!r} was compiled with {type(graph.checkpointer).__name__}, whose state a "
            "durable run would not see",
            hint="Compile it without a checkpointer: the run's journal keeps its state",
        )
    missed = unmatched(list(node_paths(graph)), nodes)
    if missed:
        raise ValueError(f"nodes= has patterns that match no node of {name!r}: {missed}")


class DurableGraph(AgentCalls, StateAccess, PregelProtocol[Any, Any, Any, Any]):
    """A compiled graph whose calls are durable runs.

    ``graph`` is the wrapped original, ``client`` a Client on the same store, ``name`` the agent's.
    ``sync`` has the calls by run id for synchronous code: ``bot.sync.run_and_await(...)``.
    """

    def __init__(
        self, graph: Pregel[Any, Any, Any, Any], executor: GraphExecutor, admission: Admission
    ) -> None:
        self.graph = graph
        self.name: str = admission.name
        self.client = admission.client
        self.saver = executor.saver
        self.sync = SyncCalls(self)
        self._executor = executor
        self._admission = admission

    def __repr__(self) -> str:
        return f"<DurableGraph {self.name!r} on {self.client.store.url}>"

    def __getattr__(self, name: str) -> Any:
        """Answer everything else as the wrapped graph does."""
        if name.startswith("__") or name == "graph":
            raise AttributeError(name)
        return getattr(self.graph, name)

    # --- as the compiled graph ------------------------------------------------------------------

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the graph and return its output, exactly as the compiled graph does.

        The call is a run: recorded first, recovered when its process dies. Raises what the graph
        raises, ThreadBusy, DurableInvocationCancelled, and DurableInvocationError with code
        ``paused`` when somebody pauses the run meanwhile.
        """
        meeting, driven, given, key = await self._begin(input, config, kwargs)
        plan = await asyncio.wrap_future(meeting.plan)
        if plan is None:
            await self._end(driven, key)
            return await self._output(key)
        try:
            with meeting.running(plan) as returning:
                returning.value = await plan.graph.ainvoke(
                    plan.input,
                    cast("RunnableConfig", plan.config),
                    **self._call(plan.leg.control, plan.options, given),
                )
        finally:
            await self._end(driven, key)
        return returning.value

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Stream the graph's run, exactly as the compiled graph does.

        Closing the stream early gives the run back: it stays open and can be gone on with.
        """
        meeting, driven, given, key = await self._begin(input, config, kwargs)
        plan = await asyncio.wrap_future(meeting.plan)
        try:
            if plan is not None:
                with meeting.running(plan):
                    async for chunk in plan.graph.astream(
                        plan.input,
                        cast("RunnableConfig", plan.config),
                        **self._call(plan.leg.control, plan.options, given),
                    ):
                        yield chunk
        finally:
            await self._end(driven, key)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Do ``ainvoke`` from synchronous code; the graph runs in the calling thread."""
        meeting, driven, given, key = run_sync(self._begin(input, config, kwargs))
        plan = meeting.plan.result()
        if plan is None:
            run_sync(self._end(driven, key))
            return run_sync(self._output(key))
        try:
            with meeting.running(plan) as returning:
                returning.value = plan.graph.invoke(
                    plan.input,
                    cast("RunnableConfig", plan.config),
                    **self._call(plan.leg.control, plan.options, given),
                )
        finally:
            run_sync(self._end(driven, key))
        return returning.value

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Do ``astream`` from synchronous code; the graph runs in the calling thread."""
        meeting, driven, given, key = run_sync(self._begin(input, config, kwargs))
        plan = meeting.plan.result()
        try:
            if plan is not None:
                with meeting.running(plan):
                    yield from plan.graph.stream(
                        plan.input,
                        cast("RunnableConfig", plan.config),
                        **self._call(plan.leg.control, plan.options, given),
                    )
        finally:
            run_sync(self._end(driven, key))

    async def _begin(
        self, value: Any, config: RunnableConfig | None, kwargs: Mapping[str, Any]
    ) -> tuple[HandOff, asyncio.Task[Ending], dict[str, Any], RunKey]:
        """Admit a call as a run and claim it; the graph itself is left to the caller."""
        full = ensure_config(config)
        options = {name: kwargs.get(name) for name in RECORDED}
        key = await self._admission.admit(value, dict(full), dict(config or {}), options)
        self._executor.configs[key.run_id] = call_config(full, config)
        engine = self.client.engine
        claimed = await engine.claim(key)
        if not isinstance(claimed, Claimed):
            raise ThreadBusy(
                f"run {key} is held by another process",
                hint="Await it with run_and_await or client.result",
            )
        meeting = HandOff()
        executor = self._executor.through(meeting.run)
        driven = asyncio.create_task(engine.drive(claimed.row, executor), name=f"drive {key}")
        driven.add_done_callback(meeting.ended)
        # What this call says itself wins over what was recorded with the run's first call.
        given = {
            name: each
            for name, each in kwargs.items()
            if name not in DECIDED and (name not in RECORDED or each is not None)
        }
        return meeting, driven, given, key

    def _call(
        self, control: Any, options: Mapping[str, Any], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {"durability": "sync", "control": control, **options, **given}

    async def _end(self, driven: asyncio.Task[Ending], key: RunKey) -> None:
        """Wait until the run's end is recorded, and raise when it is not what the graph said.

        What the graph itself raised is left to go on its way.
        """
        ending = await driven
        self._executor.configs.pop(key.run_id, None)
        name, run_id = key.name, key.run_id
        match ending:
            case Cancelled():
                raise DurableInvocationCancelled(
                    f"run {key} was cancelled", name=name, run_id=run_id, code="cancelled"
                )
            case StoodDown(error) if error is not None:
                raise error
            case Waiting(paused=True):
                raise DurableInvocationError(
                    f"run {key} was paused",
                    code="paused",
                    name=name,
                    run_id=run_id,
                    hint="Resume it with resume(run_id), then await it with run_and_await",
                )
            case _:
                return

    async def _output(self, key: RunKey) -> Any:
        """Return what the plain graph would for a run that had nothing to do now."""
        outcome = await self.client.result(key.name, key.run_id, drive=False)
        if outcome.status == "complete":
            return outcome.output
        row = await self.client.head(key)
        config: Any = {"configurable": {"thread_id": row.partition}}
        snapshot = await self.aget_state(config)
        values = snapshot.values
        asked = list(snapshot.interrupts)
        return {**values, "__interrupt__": asked} if asked and isinstance(values, dict) else values
