"""Crashes a workflow at every durable write and checks that nothing is lost and nothing repeated.

Owns the list of cases and their report. What one case is, is the scenario's; what is right, the
oracle's. A test of a workflow of yours::

    report = explore(order, "o-1", answers={"approve": True})
    report.raise_for_violations()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyrula_core.errors import NondeterminismError
from pyrula_core.events import TERMINAL
from pyrula_core.testing.faults import BEFORE, Fault, FaultKind, Faults
from pyrula_core.testing.replaying import replay
from pyrula_core.testing.scenario import Case, Outcome, Scenario, run_case
from pyrula_core.testing.sim_loop import beside_running_loops

__all__ = ["Report", "Violation", "explore", "explore_scenario", "judge", "swarm"]

CRASHES: Final = (
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.APPLIED_UNKNOWN,
    FaultKind.LOST,
)

Allowed = Callable[[Outcome], bool]

REPRODUCE: Final = "explore({name}, ..., seed={seed}, only='{faults}'{world})"
"""The line that shows a case again."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What was wrong in one case, and how to see it again."""

    faults: str
    seed: int
    message: str
    reproduce: str

    def __str__(self) -> str:
        return f"{self.message}\n    {self.reproduce}"


@dataclass(slots=True)
class Report:
    """What came of many cases; ``str`` of it is the text to read.

    ``outcome`` is where the run comes to when nothing goes wrong, ``writes`` the number of
    durable writes that takes, ``hits`` how often each kind of fault struck. ``reproduce`` is the
    pattern of the line that shows a case again.
    """

    name: str
    reproduce: str
    outcome: Outcome | None = None
    seed: int = 0
    writes: int = 0
    cases: int = 0
    hits: Counter[FaultKind] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def raise_for_violations(self) -> None:
        """Raise AssertionError with the whole report when a promise was broken."""
        if self.violations:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        hits = ", ".join(f"{kind} {count}" for kind, count in sorted(self.hits.items())) or "none"
        counts = f"{self.writes} writes, {self.cases} cases, {len(self.violations)} violations"
        lines = [
            f"{self.name}: seed {self.seed}, {counts}; without faults {self.outcome}",
            f"  hits: {hits}",
            *(f"  {violation}" for violation in self.violations),
        ]
        return "\n".join(lines)


def explore(
    workflow: Callable[..., Any],
    *args: Any,
    pairs: bool = False,
    seed: int = 0,
    kinds: Sequence[FaultKind] = CRASHES,
    allowed: Allowed | None = None,
    only: str | None = None,
    **world: Any,
) -> Report:
    """Run a workflow with a fault at every durable write, and check each run against its promises.

    First it runs without faults; its outcome is what every other case must come to, or one for
    which ``allowed`` is true. Then, for every durable write of a worker and every one of
    ``kinds``, and with ``pairs`` for every two of them, the fault strikes and the worker is
    started anew until the run has ended. ``only`` is a list of faults as a report shows it, to
    see one case again. ``world`` holds fields of ``Scenario``: answers, signals, cancel_at,
    store_factory, before_each, ...

    Steps must be repeatable, async or quick, and take what is random from ``ctx``. Returns a
    Report; see ``Report.raise_for_violations``.
    """
    name = world.pop("name", getattr(workflow, "__name__", "workflow"))
    scenario = Scenario(body=workflow, args=args, name=name, **world)

    def run() -> Report:
        if only is not None:
            return explore_only(scenario, only, seed=seed, allowed=allowed)
        return explore_scenario(scenario, pairs=pairs, seed=seed, kinds=kinds, allowed=allowed)

    return beside_running_loops(run)


def explore_scenario(
    scenario: Scenario,
    *,
    pairs: bool = False,
    seed: int = 0,
    kinds: Sequence[FaultKind] = CRASHES,
    allowed: Allowed | None = None,
    every: int = 1,
    at: Collection[int] | None = None,
    reproduce: str = REPRODUCE,
) -> Report:
    """Do what ``explore`` does for a scenario.

    ``every`` takes only each n-th pair; ``at`` only these writes for the first fault.
    """
    usual = run_case(scenario, Faults(seed=seed), seed=seed)
    report = Report(scenario.name, reproduce, usual.outcome, seed, len(usual.trace))
    add(report, usual, usual, scenario, allowed)
    count = 0
    for fault in points(usual.trace, kinds):
        if at is not None and fault.write not in at:
            continue
        single = run_case(scenario, Faults([fault], seed=seed), seed=seed)
        add(report, single, usual, scenario, allowed)
        if not pairs:
            continue
        for second in points(single.trace, kinds, after=fault.write):
            count += 1
            if count % every == 0:
                case = run_case(scenario, Faults([fault, second], seed=seed), seed=seed)
                add(report, case, usual, scenario, allowed)
    return report


def explore_only(
    scenario: Scenario,
    faults: str,
    *,
    seed: int = 0,
    allowed: Allowed | None = None,
    reproduce: str = REPRODUCE,
) -> Report:
    """Run one case again, from what a report shows."""
    usual = run_case(scenario, Faults(seed=seed), seed=seed)
    chosen = [Fault.parse(text) for text in faults.split(",") if text.strip()]
    report = Report(scenario.name, reproduce, usual.outcome, seed, len(usual.trace))
    case = run_case(scenario, Faults(chosen, seed=seed), seed=seed)
    add(report, case, usual, scenario, allowed)
    return report


def swarm(
    scenario: Scenario,
    seeds: Iterable[int],
    *,
    kinds: Sequence[FaultKind],
    rate: float = 0.1,
    drawn_max: int = 3,
    allowed: Allowed | None = None,
    reproduce: str = REPRODUCE,
    **world: Any,
) -> Report:
    """Run a scenario once for every seed, which draws what goes wrong and in which order.

    Each seed uses its own half of ``kinds`` and heals the world after ``drawn_max`` faults: from
    then on the run must come to its end. ``world`` changes fields of the scenario; two workers
    and a slow store find more than the usual ones.
    """
    line = reproduce.replace("{world}", "".join(f", {k}={v!r}" for k, v in world.items()))
    report, scenario = Report(scenario.name, line), replace(scenario, **world)
    for seed in seeds:
        usual = run_case(scenario, Faults(seed=seed), seed=seed)
        report.outcome, report.seed, report.writes = usual.outcome, seed, len(usual.trace)
        add(report, usual, usual, scenario, allowed)
        draw = Faults(seed=seed)
        rates = {kind: rate for kind in kinds if draw.random() < 0.5}
        faults = Faults(seed=seed, rates=rates, drawn_max=drawn_max)
        add(report, run_case(scenario, faults, seed=seed), usual, scenario, allowed)
    return report


def points(trace: Sequence[str], kinds: Sequence[FaultKind], *, after: int = 0) -> Iterator[Fault]:
    """Yield every fault that can strike at a write of ``trace`` behind ``after``."""
    for number, label in enumerate(trace, start=1):
        for kind in kinds:
            if number > after and not (label == "Claim" and kind in BEFORE):
                yield Fault(kind, number)


def add(
    report: Report, case: Case, usual: Case, scenario: Scenario, allowed: Allowed | None
) -> None:
    """Judge a case and count it."""
    report.cases += 1
    report.hits.update(case.hits)
    faults = ",".join(str(fault) for fault in case.struck)
    how = report.reproduce.format(name=report.name, seed=case.seed, faults=faults, world="")
    for message in judge(case, usual, scenario, allowed):
        report.violations.append(Violation(faults, case.seed, message, how))


def judge(
    case: Case, usual: Case, scenario: Scenario, allowed: Allowed | None = None
) -> Iterator[str]:
    """Yield what is wrong with a case, against one in which nothing went wrong."""
    yield from case.violations
    if case.outcome != usual.outcome and not (allowed is not None and allowed(case.outcome)):
        yield f"the run came to {case.outcome}, without faults it comes to {usual.outcome}"
    for key, count in case.executions.items():
        most = usual.executions.get(key, 1) * (1 + len(case.struck))
        if count > most:
            yield f"step {key!r} ran {count} times, {most} can be explained"
    if case.history and case.history[-1].type in TERMINAL:
        yield from replayed(case, scenario)


def replayed(case: Case, scenario: Scenario) -> Iterator[str]:
    """Yield how the journal that is left and the code that wrote it differ."""
    try:
        outcome = replay(case.history, scenario.body, run_id="run", name=scenario.name)
    except NondeterminismError as error:
        yield f"the finished journal does not replay: {error.message}"
        return
    if outcome.status == "complete" and outcome.output != case.outcome.output:
        yield f"the finished journal replays to {outcome.output!r}, not {case.outcome.output!r}"
