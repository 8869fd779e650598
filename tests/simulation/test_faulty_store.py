"""Each kind of fault does what it says, and without faults nothing is different."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyrula_core import JournalError, StoreUnavailable
from pyrula_core.codec import decode, encode
from pyrula_core.events import Event, EventType
from pyrula_core.model import RunKey, RunKind
from pyrula_core.ports import (
    Append,
    Appended,
    Claim,
    Conflict,
    Create,
    Created,
    Fenced,
    Head,
    ReadEvents,
)
from pyrula_core.stores import MemoryStore
from pyrula_core.testing import (
    Fault,
    FaultKind,
    Faults,
    FaultyStore,
    SimLoop,
    SimulatedCrash,
    check,
)
from pyrula_core.testing.explore import swarm
from pyrula_core.testing.sim_process import SimProcess
from tests.simulation.storages import FaultyStorage, sqlite_factory
from tests.simulation.workloads import WORKLOADS, rendered

KEY = RunKey("w", "r")
BODY = encode(Event(EventType.STEP_DONE, {"key": "a#0"}, at=1.0))


async def running(faults: str, process: SimProcess | None = None) -> FaultyStore:
    """Return a store with a run that is claimed under epoch 1; the next write is the third."""
    scheduled = [Fault.parse(text) for text in faults.split(",")]
    store = FaultyStore(MemoryStore(), Faults(scheduled), process=process)
    created = encode(Event(EventType.RUN_CREATED, {"kind": "workflow", "version": "1"}, at=1.0))
    await store.call(Create(KEY, RunKind.WORKFLOW, "1", "r", (created,)))
    await store.call(Claim("me", 1e9, BODY, BODY, key=KEY))
    return store


def append(seq: int = 2) -> Append:
    return Append(KEY, 1, seq, (BODY,))


async def length(store: FaultyStore) -> int:
    row = await store.medium.inner.call(Head(KEY))
    return 0 if row is None else row.seq


async def test_without_faults_every_law_of_the_contract_holds() -> None:
    report = await check(FaultyStorage)
    report.raise_for_failures()


@pytest.mark.parametrize("kind,there", [("lost", 2), ("applied_unknown", 3)])
async def test_an_unknown_outcome_is_one_or_the_other(kind: str, there: int) -> None:
    store = await running(f"{kind}@3")
    with pytest.raises(StoreUnavailable):
        await store.call(append())
    assert await length(store) == there
    assert isinstance(await store.call(append()), Appended)
    assert await length(store) == 3
    assert store.faults.hits == {FaultKind(kind): 1}


@pytest.mark.parametrize("kind,there", [("crash_before", 2), ("crash_after", 3)])
async def test_without_a_process_a_crash_is_raised(kind: str, there: int) -> None:
    store = await running(f"{kind}@3")
    with pytest.raises(SimulatedCrash):
        await store.call(append())
    assert await length(store) == there


async def test_a_dead_process_is_never_answered_and_writes_nothing() -> None:
    process = SimProcess("victim")
    store = await running("crash_before@3", process)
    assert not store.submit(append()).done()
    assert process.dead
    assert not store.submit(append()).done()
    assert not store.submit(ReadEvents(KEY)).done()
    assert await length(store) == 2


async def test_a_torn_write_leaves_an_event_that_is_refused() -> None:
    store = await running("crash_torn@3", SimProcess("victim"))
    store.submit(append())
    frames = await store.seen_by(None, struck=False).call(ReadEvents(KEY))
    assert decode(frames[1][1], key=KEY, seq=2)
    with pytest.raises(JournalError, match="damaged"):
        decode(frames[2][1], key=KEY, seq=3)


async def test_a_bit_is_wrong_once() -> None:
    store = await running("bit_flip@3")
    await store.call(append())
    damaged, whole = [await store.call(ReadEvents(KEY)) for _ in range(2)]
    assert damaged != whole
    with pytest.raises(JournalError):
        decode(damaged[1][1], key=KEY, seq=2)
    assert store.faults.hits == {FaultKind.BIT_FLIP: 1}


async def test_a_repeated_write_changes_nothing_more() -> None:
    store = await running("duplicate@3")
    assert await store.call(append()) == Appended(3, (await store.call(Head(KEY))).controls)
    assert await length(store) == 3


async def test_a_stolen_lease_fences_the_owner() -> None:
    store = await running("lease_stolen@3")
    assert await store.call(append()) == Fenced(epoch=2)


async def test_a_store_that_was_rolled_back_is_shorter() -> None:
    store = await running("rolled_back@5")
    await store.call(append(2))
    await store.call(append(3))
    answer = await store.call(append(4))
    assert isinstance(answer, Conflict)
    assert answer.seq == 2
    assert store.faults.hits == {FaultKind.ROLLED_BACK: 1}


def test_only_memory_can_be_rolled_back(tmp_path) -> None:
    sqlite = sqlite_factory(tmp_path / "runs.db")(None)
    with pytest.raises(TypeError, match="cannot be rolled back"):
        FaultyStore(sqlite, Faults([Fault(FaultKind.ROLLED_BACK, 1)]))
    sqlite.close()


async def test_subscribers_hear_too_early_and_not_again() -> None:
    store = await running("stale_notify@3")
    heard: list[int] = []
    rows = store.medium.inner

    def listen() -> None:
        heard.append(rows.submit(Head(KEY)).result().seq)

    store.subscribe(KEY, listen)
    await store.call(append(2))
    await store.call(append(3))
    assert heard == [2, 4]


def timed(scenario: Callable[[FaultyStore, SimProcess, SimLoop], object]) -> None:
    """Run a coroutine function as a process, on virtual time."""
    loop, process = SimLoop(), SimProcess("me")
    loop.run_until_complete(loop.spawn(process, scenario(loop, process)))
    loop.close()


def test_a_delayed_answer_is_late_and_the_write_is_not() -> None:
    async def scenario(loop: SimLoop, process: SimProcess) -> None:
        store = await running("delay@3:2.5", process)
        future = store.submit(append())
        assert await length(store) == 3
        assert not future.done()
        assert await store.call(append()) is not None
        await asyncio.sleep(2.5)
        assert future.done()

    timed(scenario)


def test_a_paused_process_misses_what_happens_meanwhile() -> None:
    async def scenario(loop: SimLoop, process: SimProcess) -> None:
        store = await running("pause@3:60", process)
        await store.call(append())
        assert loop.time() == 60.0

    timed(scenario)


def test_an_unavailable_store_comes_back() -> None:
    async def scenario(loop: SimLoop, process: SimProcess) -> None:
        store = await running("unavailable@3:10", process)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await store.call(append())
        with pytest.raises(StoreUnavailable):
            await store.call(Head(KEY))
        await asyncio.sleep(10.0)
        assert isinstance(await store.call(append()), Appended)

    timed(scenario)


def test_a_jump_and_a_cancel_reach_the_process() -> None:
    async def scenario(loop: SimLoop, process: SimProcess) -> None:
        store = await running("clock_jump@3:-60,cancel@3", process)
        asked: list[bool] = []
        process.on_cancel.append(lambda: asked.append(True))
        await store.call(append())
        await asyncio.sleep(0)
        assert (process.wall_offset, asked) == (-60.0, [True])

    timed(scenario)


async def test_creating_a_run_is_a_write_as_well() -> None:
    store = FaultyStore(MemoryStore(), Faults([Fault(FaultKind.APPLIED_UNKNOWN, 1)]))
    created = encode(Event(EventType.RUN_CREATED, {"kind": "workflow", "version": "1"}, at=1.0))
    op = Create(KEY, RunKind.WORKFLOW, "1", "r", (created,))
    with pytest.raises(StoreUnavailable):
        await store.call(op)
    assert not isinstance(await store.call(op), Created)


def test_a_fault_is_written_as_it_is_read() -> None:
    for text in ("lost@3", "delay@12:2.5", "clock_jump@1:-3600.0"):
        assert str(Fault.parse(text)) == text
    for text in ("lost", "lost@", "lost@x", "nothing@3"):
        with pytest.raises(ValueError, match=r"lost|nothing"):
            Fault.parse(text)


REPORTED = {FaultKind.CRASH_TORN, FaultKind.ROLLED_BACK}
"""A damaged journal and a store that forgot are reported, not survived; see test_found.py."""

TOGETHER = [kind for kind in FaultKind if kind not in REPORTED]


def test_a_swarm_hits_every_kind_that_a_run_must_survive() -> None:
    scenario = WORKLOADS["linear"].scenario
    report = swarm(scenario, range(24), kinds=TOGETHER, rate=0.08, workers=2, latency=0.01)
    report.raise_for_violations()
    assert set(report.hits) == set(TOGETHER)


def test_a_swarm_of_cancels_is_survived_where_the_store_answers_at_once() -> None:
    kinds = [FaultKind.CANCEL, FaultKind.CRASH_AFTER]
    report = swarm(WORKLOADS["saga"].scenario, range(8), kinds=kinds, allowed=rendered)
    report.raise_for_violations()
    assert set(report.hits) == set(kinds)
