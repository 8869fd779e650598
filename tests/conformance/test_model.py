"""SQLite answers every operation as memory does, in any order, with restarts in between."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyrula_core.model import RunKey, RunKind, RunStatus
from pyrula_core.ports import (
    Append,
    Claim,
    Create,
    DeleteRun,
    FindIdempotent,
    Head,
    ListPartitions,
    ListRuns,
    Now,
    Op,
    Patch,
    Post,
    ReadEvents,
    ReadRecords,
    Record,
    RecordRange,
    Renew,
    ScanRecords,
    Store,
    WriteRecords,
)
from pyrula_core.testing import ManualClock
from tests.conformance.storages import MemoryStorage, SqliteStorage

KEYS = [RunKey("a", "1"), RunKey("a", "2"), RunKey("b", "1")]
NAMESPACES = ["one", "two"]
PARTITIONS = ["p", "q"]
RECORD_KEYS = [b"", b"\x00", b"a", b"ab", b"b", b"\xff"]

# Mostly one run of one namespace: what makes stores differ needs several steps on the same run.
namespaces = st.sampled_from([NAMESPACES[0]] * 5 + NAMESPACES)
keys = st.sampled_from([KEYS[0]] * 4 + KEYS)
partitions = st.sampled_from(PARTITIONS)
owners = st.sampled_from(["x", "y"])
bodies = st.lists(st.sampled_from([b"e1", b"e2", b"e3"]), max_size=3).map(tuple)
offsets = st.sampled_from([0, 0, 0, 0, -1, 1, -2])
record_keys = st.sampled_from(RECORD_KEYS)
records = st.lists(
    st.builds(Record, record_keys, st.sampled_from([None, b"", b"v", b"w" * 3000]))
    | st.builds(RecordRange, record_keys, record_keys),
    max_size=3,
).map(tuple)
flags = st.sampled_from([None, None, True, False])
patches = st.just(Patch()) | st.builds(
    Patch,
    status=st.sampled_from([None, *(s for s in RunStatus if s is not RunStatus.PAUSED)]),
    release=st.booleans(),
    wake_at=st.sampled_from([None, 1_000_000.0, 1_000_010.0, 1_000_060.0]),
    error_code=st.sampled_from([None, "internal"]),
    user_code=st.sampled_from([None, "u"]),
)


class StoresAgree(RuleBasedStateMachine):
    """Does everything on both stores and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.storages = [MemoryStorage(), SqliteStorage(self.folder)]
        self.clock = ManualClock()
        self.behind = 0.0
        self.stores: dict[str, list[Store]] = {}
        self.last: tuple[str, Op[Any]] | None = None

    def teardown(self) -> None:
        self.close()
        shutil.rmtree(self.folder)

    def close(self) -> None:
        for pair in self.stores.values():
            for store in pair:
                store.close()

    @initialize()
    def open_first(self) -> None:
        self.reopen()

    @rule()
    def reopen(self) -> None:
        # A store's clock stands still only while it is open: a new one starts at the machine's.
        self.clock.jump(self.behind)
        self.behind = 0.0
        self.close()
        self.stores = {
            namespace: [s.open(clock=self.clock, namespace=namespace) for s in self.storages]
            for namespace in NAMESPACES
        }

    def both(self, namespace: str, op: Op[Any]) -> Any:
        memory, sqlite = (store.submit(op).result(timeout=30) for store in self.stores[namespace])
        assert sqlite == memory, f"{op!r}"
        return memory

    def write(self, namespace: str, op: Op[Any]) -> None:
        self.last = (namespace, op)
        self.both(namespace, op)

    @rule(
        namespace=namespaces,
        key=keys,
        partition=partitions,
        events=bodies,
        idempotency_key=st.sampled_from([None, "k"]),
        parent=st.sampled_from([None, "a/1"]),
        version=st.sampled_from(["1", "2"]),
        claim_owner=st.sampled_from([None, "x"]),
    )
    def create(self, namespace: str, **fields: Any) -> None:
        op = Create(kind=RunKind.AGENT, claim_ttl=10.0, claim_event=b"claimed", **fields)
        self.write(namespace, op)

    @rule(
        namespace=namespaces,
        key=keys,
        events=bodies,
        patch=patches,
        some=records,
        behind=offsets,
        stale=st.sampled_from([0, 0, 0, -1, 1]),
    )
    def append(
        self, namespace: str, key: RunKey, events: Any, patch: Patch, some: Any, **off: int
    ) -> None:
        row = self.both(namespace, Head(key))
        seq, epoch = (row.seq, row.epoch) if row else (0, 0)
        place = (epoch + off["stale"], max(0, seq + off["behind"]))
        self.write(namespace, Append(key, *place, events, patch, some))

    @rule(namespace=namespaces, key=keys, events=bodies)
    def append_as_a_step_does(self, namespace: str, key: RunKey, events: Any) -> None:
        row = self.both(namespace, Head(key))
        if row:
            body = events[:1] or (b"step",)
            self.write(namespace, Append(key, row.epoch, row.seq, body))

    @rule(
        namespace=namespaces,
        key=keys,
        events=bodies,
        wake=st.booleans(),
        pause=flags,
        cancel=flags,
        guard=st.sampled_from([None, "g", "h"]),
    )
    def post(self, namespace: str, **fields: Any) -> None:
        self.write(namespace, Post(**fields))

    @rule(
        namespace=namespaces,
        key=keys,
        owner=owners,
        ttl=st.sampled_from([0.0, 10.0, 60.0]),
        dead_owner=st.none() | owners,
    )
    def claim(self, namespace: str, **fields: Any) -> None:
        self.write(namespace, Claim(claimed=b"claimed", orphaned=b"orphaned", **fields))

    @rule(
        namespace=namespaces,
        owner=owners,
        serves=st.frozensets(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "1", "2"]))),
    )
    def claim_any(self, namespace: str, owner: str, serves: Any) -> None:
        self.write(namespace, Claim(owner, 10.0, b"claimed", b"orphaned", None, serves))

    @rule(namespace=namespaces, key=keys, owner=owners, stale=st.sampled_from([0, 0, -1]))
    def renew(self, namespace: str, key: RunKey, owner: str, stale: int) -> None:
        row = self.both(namespace, Head(key))
        self.write(namespace, Renew(key, (row.epoch if row else 0) + stale, owner, 10.0))

    @rule(namespace=namespaces, partition=partitions, some=records, fence=st.none() | keys)
    def write_records(self, namespace: str, partition: str, some: Any, fence: Any) -> None:
        row = self.both(namespace, Head(fence)) if fence else None
        self.write(namespace, WriteRecords(partition, some, fence, row.epoch if row else 0))

    @rule(namespace=namespaces, key=keys)
    def delete(self, namespace: str, key: RunKey) -> None:
        self.write(namespace, DeleteRun(key))

    @rule(seconds=st.sampled_from([0.5, 5.0, 10.0, 60.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def set_the_clock_back(self) -> None:
        for pair in self.stores.values():
            for store in pair:
                store.submit(Now()).result()
        self.clock.jump(-3.0)
        self.behind += 3.0

    @rule()
    def repeat_the_last_write(self) -> None:
        if self.last:
            self.both(*self.last)

    @rule(
        namespace=namespaces,
        start=record_keys,
        end=record_keys,
        partition=partitions,
        limit=st.sampled_from([None, 0, 1, 2]),
        reverse=st.booleans(),
    )
    def scan(self, namespace: str, **fields: Any) -> None:
        self.both(namespace, ScanRecords(**fields))

    @rule(
        namespace=namespaces,
        name=st.sampled_from([None, "a"]),
        statuses=st.frozensets(st.sampled_from(list(RunStatus)), max_size=3),
        error_code=st.sampled_from([None, "internal"]),
        created_after=st.sampled_from([None, 1_000_000.0, 1_000_010.0]),
        created_before=st.sampled_from([None, 1_000_000.0, 1_000_010.0]),
        partition=st.sampled_from([None, *PARTITIONS]),
        parent=st.sampled_from([None, "a/1"]),
        limit=st.sampled_from([1, 2, 50]),
    )
    def list_runs(self, namespace: str, **fields: Any) -> None:
        pages = [walk(store, ListRuns(**fields)) for store in self.stores[namespace]]
        assert pages[0] == pages[1]

    @invariant()
    def everything_is_the_same(self) -> None:
        for namespace in self.stores:
            for key in KEYS:
                row = self.both(namespace, Head(key))
                frames = self.both(namespace, ReadEvents(key))
                assert [seq for seq, _ in frames] == list(range(1, (row.seq if row else 0) + 1))
            for partition in PARTITIONS:
                self.both(namespace, ScanRecords(partition, b"", b"\xff\xff"))
                self.both(namespace, ReadRecords(partition, tuple(RECORD_KEYS)))
            self.both(namespace, ListPartitions())
            self.both(namespace, FindIdempotent("a", "k"))


def walk(store: Store, op: ListRuns) -> list[Any]:
    """Every page of a listing; cursors are each store's own."""
    pages: list[Any] = []
    while True:
        page = store.submit(op).result(timeout=30)
        pages.append(page.rows)
        if page.cursor is None:
            return pages
        op = replace(op, cursor=page.cursor)


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
