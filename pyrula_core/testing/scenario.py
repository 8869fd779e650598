"""One workflow in a simulated world: workers that die and come back, people who answer.

Owns a case from its first event to its last: the loop, the processes, the outside world, and the
verdict of the oracle. The same scenario, faults and seed give the same case, event for event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyrula_core.client import Client
from pyrula_core.engine import Engine
from pyrula_core.errors import CallerError, DurableInvocationError, JournalError
from pyrula_core.events import Event
from pyrula_core.machine import fold
from pyrula_core.model import RunKey, RunKind
from pyrula_core.ports import Append, Clock, ListRuns, Op, ReadEvents, Store
from pyrula_core.registry import Definition, Registry
from pyrula_core.stores.memory import MemoryStore
from pyrula_core.testing.clock import SeededEntropy
from pyrula_core.testing.faults import Fault, FaultKind, Faults
from pyrula_core.testing.faulty_store import FaultyStore
from pyrula_core.testing.oracle import Oracle, watched
from pyrula_core.testing.sim_keeper import SimLeaseKeeper
from pyrula_core.testing.sim_loop import (
    SimClock,
    SimLoop,
    SimOverrun,
    SimStuck,
    beside_running_loops,
    simulation,
)
from pyrula_core.testing.sim_process import SimProcess
from pyrula_core.testing.sim_worker import SimWorker
from pyrula_core.values import JSON_CODEC
from pyrula_core.worker import Worker, WorkerOptions

__all__ = ["Case", "Outcome", "Scenario", "run_case", "simulate"]

RUN_ID: Final = "run"
restart_s: Final = 0.05
afterwards_s: Final = 1.5
answer_after_s: Final = 0.25
effortless: Final = 10_000


def memory(clock: Clock) -> Store:
    """Open an empty memory store."""
    return MemoryStore(clock=clock)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a run came to: its last status, and its output or error code."""

    status: str
    output: Any = None
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A workflow and the world around it.

    ``answers`` maps the name of an interrupt to its answer, or to a function of what was asked.
    ``signals`` are names and values, sent in order, one every ``signal_every`` seconds;
    ``cancel_at`` is when somebody cancels the run. ``workers`` serve it. ``store_factory`` opens
    an empty store for each case; ``before_each`` resets what the workflow keeps outside of it.
    ``patience`` is how many virtual seconds the run may take and ``turns_max`` how many turns of
    the event loop, ``latency`` how many seconds the store may take to answer.
    """

    body: Callable[..., Coroutine[Any, Any, Any]]
    args: Sequence[Any] = ()
    name: str = "workflow"
    answers: Mapping[str, Any] = field(default_factory=dict)
    signals: Sequence[tuple[str, Any]] = ()
    signal_every: float = 1.0
    cancel_at: float | None = None
    workers: int = 1
    lease_ttl: float = 5.0
    patience: float = 7 * 86_400.0
    latency: float = 0.0
    turns_max: int = 50_000
    store_factory: Callable[[Clock], Store] = memory
    before_each: Callable[[], None] = lambda: None
    options: WorkerOptions = WorkerOptions(max_retries=effortless, max_store_requeues=effortless)
    engine_type: type[Engine] = Engine
    worker_type: type[Worker] = SimWorker


@dataclass(frozen=True, slots=True)
class Case:
    """What came of a scenario under some faults.

    ``trace`` names the durable writes in order, ``struck`` what went wrong, ``history`` is the
    run's journal at the end, ``executions`` counts steps by idempotency key.
    """

    seed: int
    outcome: Outcome
    trace: tuple[str, ...]
    struck: tuple[Fault, ...]
    hits: Counter[FaultKind]
    history: tuple[Event, ...]
    executions: Counter[str]
    violations: tuple[str, ...]


class World:
    """The processes of one case and what happens around them."""

    def __init__(self, scenario: Scenario, loop: SimLoop, store: FaultyStore) -> None:
        self.scenario = scenario
        self.loop = loop
        self.store = store
        self.key = RunKey(scenario.name, RUN_ID)
        self.oracle = Oracle(loop.time)
        store.medium.watchers += [self.oracle, self]
        self._ended, self._asked = asyncio.Event(), asyncio.Event()
        self.registry = Registry()
        body = watched(scenario.body, self.oracle.ran)
        self.registry.add(Definition(scenario.name, "1", RunKind.WORKFLOW, body=body))
        engine = self._engine(None, store.seen_by(None, struck=False))
        self.client = Client(registry=self.registry, engine=engine)
        self.outcome = Outcome("none")
        self._born = 0

    def _engine(self, process: SimProcess | None, store: FaultyStore) -> Engine:
        name = "world" if process is None else process.name
        return self.scenario.engine_type(
            store,
            self.registry,
            clock=SimClock(self.loop, process),
            entropy=SeededEntropy(self.loop.random.getrandbits(32)),
            keeper=SimLeaseKeeper(),
            owner=name,
            lease_ttl=self.scenario.lease_ttl,
            max_retries=self.scenario.options.max_retries,
            max_store_requeues=self.scenario.options.max_store_requeues,
        )

    async def run(self) -> None:
        """Start the run, keep workers alive until it has ended, and let the dust settle."""
        scenario = self.scenario
        await self.client.start(scenario.name, *scenario.args, run_id=RUN_ID)
        work = [self._keep_alive() for _ in range(scenario.workers)]
        work += [self._signal(), self._answer(), self._cancel()]
        tasks = [asyncio.create_task(one, name="the world") for one in work]
        try:
            async with asyncio.timeout(scenario.patience):
                self.outcome = await self._settled()
            await asyncio.sleep(afterwards_s)
        except TimeoutError:
            self.oracle.complain(f"the run had not ended after {scenario.patience:.0f} s")
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                self.oracle.complain(f"the world failed: {task.exception()!r}")
            task.cancel()

    def applied(self, op: Op[Any], _answer: object, _process: SimProcess | None) -> None:
        """Learn that some run may have ended, or asked something."""
        if isinstance(op, Append) and op.patch.status is not None:
            self._ended.set()
            self._asked.set()

    def answered(self, _op: Op[Any], _answer: object, _process: SimProcess | None) -> None:
        """Nothing is to be learned from what a caller is told."""

    async def _settled(self) -> Outcome:
        """Wait for the end of the run, or of the last run of its chain."""
        while not await self._over():
            await self._ended.wait()
            self._ended.clear()
        try:
            outcome = await self.client.settle(self.key, drive=False, until=frozenset())
        except DurableInvocationError as error:
            return Outcome("cancelled" if error.code == "cancelled" else "error", code=error.code)
        except JournalError:
            row = await self.client.head(self.key)
            return Outcome(str(row.status), code=row.error_code or "")
        return Outcome(outcome.status, outcome.output)

    async def _over(self) -> bool:
        """Tell whether every run there is has ended."""
        page = await self.client.list(limit=1000)
        return all(row.status.ended for row in page.rows)

    # --- processes --------------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        """Start a worker, and another one whenever it was killed."""
        while True:
            self._born += 1
            process = SimProcess(f"worker-{self._born}")
            died = asyncio.Event()
            process.on_death.append(died.set)
            self.loop.spawn(process, self._work(process))
            await died.wait()
            await asyncio.sleep(restart_s)

    async def _work(self, process: SimProcess) -> None:
        engine = self._engine(process, self.store.seen_by(process))
        options = self.scenario.options
        worker = self.scenario.worker_type(options=options, registry=self.registry, engine=engine)

        def cancel() -> None:
            for task in worker.driving.values():
                task.cancel()

        process.on_cancel.append(cancel)
        async with worker:
            await self.loop.create_future()

    # --- people -----------------------------------------------------------------------------------

    async def _signal(self) -> None:
        for number, (name, value) in enumerate(self.scenario.signals):
            await asyncio.sleep(self.scenario.signal_every)
            with contextlib.suppress(CallerError, JournalError):
                await self.client.signal(*self._run(), name, value, dedupe=str(number))

    async def _cancel(self) -> None:
        if self.scenario.cancel_at is not None:
            await asyncio.sleep(self.scenario.cancel_at)
            with contextlib.suppress(CallerError, JournalError):
                await self.client.cancel(*self._run())

    async def _answer(self) -> None:
        while self.scenario.answers:
            await self._asked.wait()
            self._asked.clear()
            await asyncio.sleep(answer_after_s)
            with contextlib.suppress(CallerError, JournalError):
                await self._answer_open()

    async def _answer_open(self) -> None:
        state = fold(await self.client.history(*self._run()))
        for question in state.open_questions:
            name = question.key.rpartition("/")[2].partition("#")[0]
            if name in self.scenario.answers:
                answer = self.scenario.answers[name]
                if callable(answer):
                    asked = question.asked
                    answer = answer(None if asked is None else JSON_CODEC.decode(asked))
                await self.client.answer(*self._run(), question.id, answer)

    def _run(self) -> tuple[str, str]:
        return self.key.name, self.key.run_id

    # --- the verdict ------------------------------------------------------------------------------

    def journal(self, *, jumped: bool) -> tuple[Event, ...]:
        """Check every run there is, and return the journal of the one that was started."""
        inner = self.store.medium.inner
        found: tuple[Event, ...] = ()
        for row in inner.submit(ListRuns(limit=1000)).result().rows:
            frames = inner.submit(ReadEvents(row.key)).result()
            events = self.oracle.check_journal(row, frames, jumped=jumped)
            if row.key == self.key:
                found = tuple(events)
        return found


def simulate(workflow: Callable[..., Any], *args: Any, seed: int = 0, **world: Any) -> Case:
    """Run a workflow once on virtual time, with nothing going wrong, and return what came of it.

    ``world`` holds fields of ``Scenario``: answers, signals, cancel_at, ... A workflow that sleeps
    for days takes milliseconds. Raises AssertionError when a promise of the engine was broken.

    >>> async def remind(ctx, name):
    ...     await ctx.sleep(86_400)
    ...     return await ctx.step("send", lambda: f"hello {name}")
    >>> simulate(remind, "Ann").outcome
    Outcome(status='complete', output='hello Ann', code='')
    """
    name = world.pop("name", getattr(workflow, "__name__", "workflow"))
    scenario = Scenario(body=workflow, args=args, name=name, **world)
    case = beside_running_loops(lambda: run_case(scenario, Faults(), seed=seed))
    if case.violations:
        raise AssertionError("\n".join(case.violations))
    return case


def run_case(scenario: Scenario, faults: Faults, *, seed: int = 0) -> Case:
    """Run a scenario once under ``faults`` and return what came of it; never raises for a bug."""
    scenario.before_each()
    with simulation(seed, turns_max=scenario.turns_max) as loop:
        inner = scenario.store_factory(SimClock(loop))
        try:
            return case_on(scenario, loop, FaultyStore(inner, faults, latency=scenario.latency))
        finally:
            inner.close()


def case_on(scenario: Scenario, loop: SimLoop, store: FaultyStore) -> Case:
    """Run a scenario on a loop and a store, and judge it."""
    world = World(scenario, loop, store)
    try:
        loop.run_until_complete(world.run())
    except (SimStuck, SimOverrun) as error:
        world.oracle.complain(str(error))
    for complaint in loop.complaints:
        world.oracle.complain(f"{complaint.get('message')}: {complaint.get('exception')!r}")
    faults = store.faults
    history = world.journal(jumped=FaultKind.CLOCK_JUMP in faults.hits)
    return Case(
        seed=loop.seed,
        outcome=world.outcome,
        trace=tuple(faults.trace),
        struck=tuple(faults.struck),
        hits=faults.hits,
        history=history,
        executions=world.oracle.executions,
        violations=tuple(world.oracle.violations),
    )
