from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Interrupt, interrupt

from pyrula_core.errors import JournalError, ResultNotSerializable
from pyrula_core.ports import ScanRecords
from pyrula_core.stores import open_store
from pyrula_langgraph.facts import CheckpointFact, StoreSink, TaskFact
from pyrula_langgraph.saver import JournalSaver
from pyrula_langgraph.serde import GraphSerde
from tests.langgraph.saver_calls import Cipher, put, values_of, where, writes_of

URLS = ["memory://", "sqlite:///{}/s.db"]


@pytest.fixture(params=URLS, ids=["memory", "sqlite"])
def url(request, tmp_path):
    return request.param.format(tmp_path)


@pytest.fixture
def saver(url):
    saver = JournalSaver(url)
    yield saver
    saver.close()


SERDES: dict[str, Any] = {
    "own": lambda: None,
    "langgraph": JsonPlusSerializer,
    "encrypted": lambda: EncryptedSerializer(Cipher(), GraphSerde()),
}


@pytest.mark.parametrize("serde", SERDES)
async def test_the_conformance_kit_passes_with_every_capability(url, serde):
    @checkpointer_test(name="JournalSaver")
    async def journal_saver():
        saver = JournalSaver(url, serde=SERDES[serde]())
        yield saver
        saver.close()

    report = await validate(journal_saver)
    failures = {name: result.failures for name, result in report.results.items()}
    assert not any(failures.values()), failures
    assert all(result.detected and result.passed for result in report.results.values())
    assert {"copy_thread", "delete_for_runs", "prune"} <= set(report.results)


def test_the_first_write_of_a_place_wins_and_on_special_channels_the_last(saver):
    at = put(saver, where(), a=1)
    saver.put_writes(at, [("a", 1), ("__interrupt__", "first")], "task")
    saver.put_writes(at, [("a", 2), ("b", 3)], "task")
    saver.put_writes(at, [("__interrupt__", "last")], "task")
    assert [(c, v) for _, c, v in writes_of(saver, at)] == [
        ("__interrupt__", "last"),
        ("a", 1),
        ("b", 3),
    ]


def test_a_reopened_saver_goes_on_counting_a_tasks_writes(url, tmp_path):
    if url == "memory://":
        pytest.skip("nothing to reopen")
    first = JournalSaver(url)
    at = put(first, where(), a=1)
    first.put_writes(at, [("a", "kept")], "task")
    first.close()
    second = JournalSaver(url)
    second.put_writes(at, [("a", "ignored"), ("__resume__", "last")], "task")
    second.put_writes(at, [("__resume__", "very last")], "task")
    assert writes_of(second, at) == [
        ("task", "__resume__", "very last"),
        ("task", "a", "kept"),
    ]
    second.close()


def test_writes_may_come_before_their_checkpoint_and_after_its_child(saver):
    early = str(uuid6())
    saver.put_writes(where(checkpoint_id=early), [("a", "x" * 99)], "t2", "path b")
    checkpoint: Any = {**empty_checkpoint(), "id": early}
    parent = saver.put(where(), checkpoint, {"step": 0}, {})
    put(saver, parent, a=1)
    saver.put_writes(parent, [("a", "late")], "t1", "path a")
    assert writes_of(saver, parent) == [("t1", "a", "late"), ("t2", "a", "x" * 99)]


def test_a_failed_router_leaves_only_its_failure(saver):
    at = put(saver, where(), a=1)
    saver.put_writes(at, [("a", 1), ("__error__", ValueError("router"))], "task")
    saver.put_writes(at, [("a", 2), ("__error__", "x"), ("__error_source_node__", "n")], "other")
    kept = [(task, channel) for task, channel, _ in writes_of(saver, at)]
    assert kept == [
        ("other", "__error__"),
        ("other", "a"),
        ("other", "__error_source_node__"),
        ("task", "__error__"),
    ]


def test_report_43_a_value_that_cannot_be_recorded_names_task_channel_path_and_type(saver):
    at = put(saver, where(), a=1)
    with pytest.raises(ResultNotSerializable) as caught:
        saver.put_writes(at, [("a", 1), ("b", [{}, {"c": lambda: 1}])], "id", "~__pregel_pull, n")
    assert caught.value.path == "$.b[1].c"
    assert caught.value.type_path == "builtins:function"
    assert "task '~__pregel_pull, n' wrote channel 'b'" in str(caught.value)
    assert saver.latched is caught.value
    with pytest.raises(ResultNotSerializable) as again:
        put(saver, at, a=2)
    assert again.value is caught.value
    assert saver.latched is None
    put(saver, at, a=2)
    with pytest.raises(ResultNotSerializable, match="the state holds channel 'b'"):
        put(saver, at, b={"x": object()})


def test_a_bound_saver_keeps_its_first_failure_and_tells_of_it(saver):
    told: list[BaseException] = []
    bound = saver.bound(sink=saver.sink, on_error=told.append)
    at = put(bound, where(), a=1)
    with pytest.raises(ResultNotSerializable):
        bound.put_writes(at, [("a", object())], "task")
    for _ in range(2):
        with pytest.raises(ResultNotSerializable):
            put(bound, at, a=2)
    assert told == [bound.latched]
    assert saver.latched is None


class Recorder:
    """A sink that notes what it is told."""

    def __init__(self, store: Any) -> None:
        self.inner = StoreSink(store)
        self.facts: list[Any] = []

    def submit(self, thread: str, records: Any, fact: Any) -> Future[None]:
        self.facts.append(fact)
        return self.inner.submit(thread, records, fact)


def test_the_sink_is_told_a_fact_with_every_write(saver):
    sink = Recorder(saver.store)
    bound = saver.bound(sink=sink)
    at = put(bound, where(), a=1, run_id="run")
    asked = Interrupt("?", id="i")
    error = ValueError("x")
    bound.put_writes(at, [("a", "x" * 100)], "t1", "p1")
    bound.put_writes(at, [("__interrupt__", (asked,))], "t2", "p2")
    bound.put_writes(at, [("__error__", error)], "t3", "p3")
    checkpoint, *tasks = sink.facts
    id_ = at["configurable"]["checkpoint_id"]
    assert checkpoint == CheckpointFact("", id_, 1, "loop", "run", None)
    assert all(isinstance(fact, TaskFact) and fact.bytes > 50 for fact in tasks)
    assert [fact.task_id for fact in tasks] == ["t1", "t2", "t3"]
    assert tasks[0].channels == ("a",)
    assert tasks[1].interrupts == (asked,)
    assert tasks[2].error is error


async def test_the_sync_api_works_in_a_thread_while_the_loop_is_blocked(saver):
    at = await saver.aput(where(), {**empty_checkpoint(), "id": str(uuid6())}, {"step": 0}, {})
    with ThreadPoolExecutor() as threads:
        done = threads.submit(lambda: (put(saver, at, a=1), writes_of(saver, where())))
        assert done.result(timeout=20)[1] == []


class Slow:
    """A sink whose writes become durable when told."""

    def __init__(self, store: Any) -> None:
        self.inner = StoreSink(store)
        self.held: list[Any] = []

    def submit(self, thread: str, records: Any, fact: Any) -> Future[None]:
        future: Future[None] = Future()
        self.held.append((future, thread, records, fact))
        return future

    def release(self) -> None:
        for future, *write in self.held:
            self.inner.submit(*write).result()
            future.set_result(None)
        self.held.clear()


async def test_a_cancelled_caller_leaves_its_write_alone_and_no_failure_behind(saver):
    at = put(saver, where(), a=1)
    ordinary, saver.sink = saver.sink, Slow(saver.store)
    task = asyncio.create_task(saver.aput_writes(at, [("a", "x" * 90)], "task"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    saver.sink.release()
    saver.sink = ordinary
    assert saver.latched is None
    assert writes_of(saver, at) == [("task", "a", "x" * 90)]
    after = put(saver, at, 2, a="x" * 90)
    assert values_of(saver, after) == {"a": "x" * 90}


async def test_many_tasks_may_write_at_once(saver):
    at = put(saver, where(), a=1)
    writes = [saver.aput_writes(at, [("a", [n, "x" * 50])], f"t{n:03}") for n in range(100)]
    await asyncio.gather(*writes)
    threads = [
        threading.Thread(target=saver.put_writes, args=(at, [("a", "y" * 60)], f"u{n}"))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(writes_of(saver, at)) == 120


class Asking(TypedDict, total=False):
    answer: Any


async def test_a_graph_is_interrupted_and_resumed_across_savers(url):
    if url == "memory://":
        store: Any = open_store(url)
        opened = lambda: JournalSaver(store)  # noqa: E731
    else:
        opened = lambda: JournalSaver(url)  # noqa: E731
    graph = StateGraph(Asking)
    graph.add_node("ask", lambda _: {"answer": interrupt("?")})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    config: Any = {"configurable": {"thread_id": "t"}}
    saver = opened()
    result = await graph.compile(checkpointer=saver).ainvoke({}, config)
    assert result["__interrupt__"][0].value == "?"
    saver.close()
    saver = opened()
    result = await graph.compile(checkpointer=saver).ainvoke(Command(resume=(1,)), config)
    assert result == {"answer": (1,)}
    saver.close()


def test_langgraphs_strict_mode_hook_leaves_the_saver_as_it_is(saver):
    assert saver.with_allowlist({("a", "b")}) is saver
    other = JournalSaver(saver.store, serde=JsonPlusSerializer())
    clone = other.with_allowlist({("langchain_core.messages", "HumanMessage")})
    at = put(clone, where(), a="x" * 100)
    assert values_of(clone, at) == {"a": "x" * 100}


def test_report_49_configurable_never_reaches_the_metadata(saver):
    config = where()
    config["configurable"] |= {"openai_api_key": "sk-secret", "run_id": "run"}
    config["metadata"] = {"user": "u"}
    at = put(saver, config, a=1)
    found = saver.get_tuple(at)
    assert found is not None
    assert found.metadata["run_id"] == "run"
    assert found.metadata["user"] == "u"
    everything = saver.store.submit(ScanRecords("t", b"\x00", b"\xff")).result()
    assert not any(b"sk-secret" in value for _, value in everything)


def test_encrypted_threads_show_no_plaintext_and_refuse_the_wrong_serializer(url, tmp_path):
    store: Any = open_store(url)
    hidden = JournalSaver(store, serde=EncryptedSerializer(Cipher(), GraphSerde()))
    at = put(hidden, where(), a=["secret words" * 9], b={"secret key" * 9: "x" * 900})
    assert values_of(hidden, at)["a"] == ["secret words" * 9]
    everything = store.submit(ScanRecords("t", b"\x02", b"\x05")).result()
    assert not any(b"secret" in value for _, value in everything)
    with pytest.raises(JournalError, match="no cipher is set"):
        JournalSaver(store).get_tuple(at)
    store.close()
