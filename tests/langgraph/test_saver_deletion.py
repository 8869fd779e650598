from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from pyrula_core.errors import JournalError, StoreUnavailable
from pyrula_core.ports import Record, ScanRecords
from pyrula_core.stores import open_store
from pyrula_langgraph.facts import StoreSink
from pyrula_langgraph.saver import JournalSaver
from tests.langgraph.saver_calls import put, values_of, where, writes_of

URLS = ["memory://", "sqlite:///{}/s.db"]


@pytest.fixture(params=URLS, ids=["memory", "sqlite"])
def url(request, tmp_path):
    return request.param.format(tmp_path)


@pytest.fixture
def saver(url):
    saver = JournalSaver(url)
    yield saver
    saver.close()


def test_deleting_a_run_leaves_later_runs_whole(saver):
    first = put(saver, where(), a=["x" * 100], b="kept" * 50, run_id="one")
    checkpoint: Any = {**empty_checkpoint(), "id": str(uuid6())}
    checkpoint["channel_versions"] = {"a": 2, "b": 1}
    checkpoint["channel_values"] = {"a": ["x" * 100, "y" * 100], "b": "kept" * 50}
    second = saver.put(first, checkpoint, {"step": 2, "run_id": "two"}, {"a": 2})
    saver.put_writes(second, [("a", ["z" * 100])], "task")
    before = len(elements(saver))
    saver.delete_for_runs(["one"])
    assert saver.get_tuple(first) is None
    found = saver.get_tuple(second)
    assert found is not None
    assert found.parent_config is None
    assert found.checkpoint["channel_values"] == checkpoint["channel_values"]
    assert writes_of(saver, second) == [("task", "a", ["z" * 100])]
    assert len(elements(saver)) == before
    saver.delete_for_runs(["two"])
    assert elements(saver) == ()


def elements(saver: JournalSaver) -> Any:
    return saver.store.submit(ScanRecords("t", b"\x04", b"\x05")).result()


def test_report_54_pruning_deletes_what_nothing_refers_to(saver):
    parent = where()
    for version in range(1, 100):
        text = [f"{place}" * 50 for place in range(version - 1, version)]
        parent = put(saver, parent, version, a=text, same="s" * 2000)
        saver.put_writes(parent, [("a", ["w" * 99 + str(version)])], "task")
    saver.prune(["t"])
    assert values_of(saver, where()) == {"a": ["98" * 50], "same": "s" * 2000}
    assert writes_of(saver, where()) == [("task", "a", ["w" * 99 + "99"])]
    assert len(elements(saver)) == 3
    put(saver, parent, 100, a=["98" * 50, "w" * 99 + "99"], same="s" * 2000)
    assert values_of(saver, where())["a"] == ["98" * 50, "w" * 99 + "99"]


def test_a_writer_notices_that_another_process_pruned_what_it_refers_to(url):
    if url == "memory://":
        store = open_store(url)
        mine, other = JournalSaver(store), JournalSaver(store)
    else:
        mine, other = JournalSaver(url), JournalSaver(url)
    shared = ["shared" * 30]
    first = put(mine, where(), 1, a=shared)
    second = put(mine, first, 2, a=[])
    other.prune(["t"])
    third = put(mine, second, 3, a=shared)
    mine.put_writes(third, [("a", ["shared" * 30])], "task")
    other.delete_thread("t")
    fourth = put(mine, third, 4, a=shared)
    assert values_of(other, fourth) == {"a": shared}
    mine.close()
    other.close()


def test_a_replaced_ancestor_is_an_error_and_no_wrong_state(saver):
    first = put(saver, where(), 1, a=["x" * 50])
    second = put(saver, first, 2, a=["x" * 50, "y" * 50])
    id_ = first["configurable"]["checkpoint_id"]
    checkpoint: Any = {**empty_checkpoint(), "id": id_, "channel_values": {"a": ["other" * 20]}}
    checkpoint["channel_versions"] = {"a": 1}
    saver.put(where(), checkpoint, {"step": 1}, {"a": 1})
    with pytest.raises(JournalError, match="has been replaced since"):
        saver.get_tuple(second)


def test_damaged_rows_and_elements_are_errors(saver):
    at = put(saver, where(), a="x" * 100)
    for prefix in (b"\x02", b"\x04"):
        end = bytes((prefix[0] + 1,))
        ((key, value),) = saver.store.submit(ScanRecords("t", prefix, end)).result()
        broken = value[:-9] + bytes((value[-9] ^ 1,)) + value[-8:]
        saver.sink.submit("t", (Record(key, broken),), None).result()
        with pytest.raises(JournalError, match="damaged"):
            saver.get_tuple(at)
        saver.sink.submit("t", (Record(key, value),), None).result()
    assert values_of(saver, at) == {"a": "x" * 100}


class Failing:
    """A sink that fails when told to."""

    def __init__(self, store: Any) -> None:
        self.inner = StoreSink(store)
        self.failing = False

    def submit(self, thread: str, records: Any, fact: Any) -> Future[None]:
        if not self.failing:
            return self.inner.submit(thread, records, fact)
        failed: Future[None] = Future()
        failed.set_exception(StoreUnavailable("down"))
        return failed


def test_what_a_failed_write_held_is_written_again(saver):
    saver.sink = sink = Failing(saver.store)
    first = put(saver, where(), 1, a=["x" * 100])
    sink.failing = True
    with pytest.raises(StoreUnavailable):
        put(saver, first, 2, a=["x" * 100, "y" * 100])
    sink.failing = False
    second = put(saver, first, 2, a=["x" * 100, "y" * 100])
    assert values_of(saver, second) == {"a": ["x" * 100, "y" * 100]}
