"""Watches a simulated store and says what the engine's promises forbid.

Owns the list of promises that are checked for every run of a simulation: while it goes on, and on
the journal that is left. Must never act on the store it watches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pyrula_core.codec import decode, seal
from pyrula_core.errors import JournalError
from pyrula_core.events import STEP_OUTCOMES, Event, EventType
from pyrula_core.machine import fold
from pyrula_core.model import RunKey, RunRow
from pyrula_core.ports import Append, Appended, Claim, Claimed, Create, Created, Op, Post, Posted
from pyrula_core.replay import scope_of
from pyrula_core.steps import is_async
from pyrula_core.substeps import RUN
from pyrula_core.testing.sim_process import PROCESS, SimProcess

__all__ = ["Oracle", "event_of", "watched"]

clock_slack_s: Final = 1e-6


@dataclass(slots=True)
class Run:
    """What was seen of one run while it went on."""

    epochs: list[int] = field(default_factory=list)
    holder: SimProcess | None = None
    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    latest: dict[str, str] = field(default_factory=dict)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    cancel_seen: dict[SimProcess | None, float] = field(default_factory=dict)


class Oracle:
    """Takes note of every operation and every step that runs; ``violations`` says what was wrong.

    ``executions`` counts how often each step ran, by its idempotency key.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self.time = time
        self.violations: list[str] = []
        self.executions: Counter[str] = Counter()
        self.runs: dict[RunKey, Run] = {}

    def complain(self, text: str) -> None:
        """Note a violation, once."""
        if text not in self.violations:
            self.violations.append(text)

    # --- while it goes on -------------------------------------------------------------------------

    def applied(self, op: Op[Any], answer: object, process: SimProcess | None) -> None:
        """Take note of an operation that the store has done."""
        match op, answer:
            case Claim(), Claimed(row=row):
                self._claimed(row, process)
            case Append(), Appended():
                self._appended(op)
            case _:
                pass

    def _claimed(self, row: RunRow, process: SimProcess | None) -> None:
        run = self.runs.setdefault(row.key, Run())
        if run.epochs and row.epoch <= run.epochs[-1]:
            self.complain(f"epoch {row.epoch} of {row.key} follows epoch {run.epochs[-1]}")
        run.epochs.append(row.epoch)
        run.holder = process

    def _appended(self, op: Append) -> None:
        run = self.runs.setdefault(op.key, Run())
        if run.epochs and op.epoch != run.epochs[-1]:
            self.complain(f"epoch {op.epoch} of {op.key} wrote under epoch {run.epochs[-1]}")
        for body in op.events:
            event = event_of(op.key, body)
            if event.type is EventType.STEP_DONE:
                run.done.add(event.data["key"])
            elif event.type is EventType.STEP_ERROR:
                run.failed.add(event.data["key"])

    def answered(self, op: Op[Any], answer: object, process: SimProcess | None) -> None:
        """Take note of an answer that its caller has got: what it says must stay true."""
        match op, answer:
            case Append(), Appended(controls=controls):
                run = self.runs.setdefault(op.key, Run())
                self._acknowledge(op.key, op.expected_seq, op.events)
                if controls.cancel:
                    run.cancel_seen.setdefault(process, self.time())
            case Create(), Created():
                self._acknowledge(op.key, 0, op.events)
            case Post(), Posted(seq=seq):
                self._acknowledge(op.key, seq - len(op.events), op.events)
            case _:
                pass

    def _acknowledge(self, key: RunKey, after: int, events: Sequence[bytes]) -> None:
        run = self.runs.setdefault(key, Run())
        for seq, body in enumerate(events, after + 1):
            run.acknowledged[seq] = body

    def ran(self, key: RunKey, idempotency_key: str, /, *, at_most_once: bool) -> None:
        """Take note of a step that begins to run."""
        self.executions[idempotency_key] += 1
        run, process = self.runs.setdefault(key, Run()), PROCESS.get()
        step = idempotency_key.split("/", 2)[-1]
        if at_most_once and self.executions[idempotency_key] > 1:
            self.complain(f"step {step!r} of {key} is to run at most once and ran again")
        if self.time() > run.cancel_seen.get(process, self.time()):
            self.complain(f"step {step!r} of {key} began after the cancel had been seen")
        # A process that has lost its lease may not have noticed yet: effects are at least once.
        if run.holder is process:
            self._check_order(run, key, step)

    def _check_order(self, run: Run, key: RunKey, step: str) -> None:
        """Check that what a step may build upon is durable when it begins, itself excepted."""
        if step in run.done:
            self.complain(f"step {step!r} of {key} ran again after it had been recorded")
        before = run.latest.get(scope_of(step), step)
        if before != step and before not in run.done | run.failed:
            self.complain(f"step {step!r} of {key} began before {before!r} was recorded")
        run.latest[scope_of(step)] = step

    # --- on what is left --------------------------------------------------------------------------

    def check_journal(
        self, row: RunRow, frames: Sequence[tuple[int, bytes]], *, jumped: bool
    ) -> list[Event]:
        """Check a journal as it is at the end; returns its events, none when it is damaged.

        ``jumped`` says that a clock was set meanwhile, so that times prove nothing.
        """
        key = row.key
        try:
            events = [decode(frame, key=key, seq=seq) for seq, frame in frames]
            state = fold(events)
        except JournalError as error:
            self.complain(f"the journal of {key} is damaged: {error.message}")
            return []
        if (state.ended is not None) != row.status.ended or state.seq != row.seq:
            self.complain(f"the row of {key} says {row.status} at {row.seq}, not its journal")
        self._check_acknowledged(key, dict(frames))
        for text in [*outcomes_twice(events), *([] if jumped else timers_early(events))]:
            self.complain(f"{text} in the journal of {key}")
        return events

    def _check_acknowledged(self, key: RunKey, frames: Mapping[int, bytes]) -> None:
        for seq, body in self.runs.setdefault(key, Run()).acknowledged.items():
            if frames.get(seq) != seal(body, key=key, seq=seq):
                kind = event_of(key, body).type
                self.complain(f"{kind}, acknowledged as event {seq} of {key}, is gone")


def event_of(key: RunKey, body: bytes) -> Event:
    """Return the event of a body that is not in a journal yet."""
    return decode(seal(body, key=key, seq=1), key=key, seq=1)


def outcomes_twice(events: Sequence[Event]) -> Iterator[str]:
    """Say which steps have more than one recorded outcome."""
    keys = Counter(event.data["key"] for event in events if event.type in STEP_OUTCOMES)
    yield from (f"{count} outcomes of step {key!r}" for key, count in keys.items() if count > 1)


def timers_early(events: Sequence[Event]) -> Iterator[str]:
    """Say which timers fired before they were due."""
    due = {event.data["key"]: event for event in events if event.type is EventType.TIMER_SET}
    for event in events:
        if event.type is EventType.TIMER_FIRED and event.data["key"] in due:
            early = due[event.data["key"]].data["due"] - event.at
            if early > clock_slack_s:
                yield f"timer {event.data['key']!r} fired {early:.3f} s early"


# --- seeing steps run -----------------------------------------------------------------------------


class Ran(Protocol):
    """Is told of a step that begins to run."""

    def __call__(self, key: RunKey, idempotency_key: str, /, *, at_most_once: bool) -> None:
        """Take note of the step."""
        ...


class WatchedContext:
    """A context that tells when a step runs, and is otherwise the one it stands for."""

    def __init__(self, context: Any, ran: Ran) -> None:
        self._context = context
        self._ran = ran

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def step(self, name: str, fn: Any, *args: Any, **options: Any) -> Any:
        """Do ``Context.step``."""
        return await self._context.step(name, self._counted(fn), *args, **options)

    async def once(self, name: str, fn: Any, *args: Any, **options: Any) -> Any:
        """Do ``Context.once``."""
        single = options.get("on_unknown", "fail") != "retry" and options.get("retry") is None
        return await self._context.once(name, self._counted(fn, single), *args, **options)

    def _counted(self, fn: Any, single: bool = False) -> Any:  # noqa: FBT001, FBT002 - ours alone
        if not callable(fn):
            return fn
        context = self._context
        key = RunKey(context.name, context.run_id)

        async def counted_async(*args: Any, **kwargs: Any) -> Any:
            self._ran(key, context.idempotency_key, at_most_once=single)
            return await fn(*args, **kwargs)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._ran(key, context.idempotency_key, at_most_once=single)
            return fn(*args, **kwargs)

        return counted_async if is_async(fn) else counted


def watched(body: Callable[..., Any], ran: Ran) -> Callable[..., Any]:
    """Return ``body`` with its steps, ambient ones too, told to ``ran`` before they run."""

    async def watched_body(context: Any, *args: Any) -> Any:
        seen = WatchedContext(context, ran)
        RUN.set(seen)
        return await body(seen, *args)

    return watched_body
