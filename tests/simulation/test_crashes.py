"""Every crash there can be, at every durable write of every workload, and pairs of them.

The short form: all single ones, and every so many-th pair. ``python -m tests.simulation --pairs``
is the long one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_core.testing.explore import CRASHES, explore_scenario
from pyrula_core.testing.faults import FaultKind, Faults
from pyrula_core.testing.scenario import run_case
from tests.simulation.storages import sqlite_factory
from tests.simulation.workloads import LONG, WORKLOADS

every_pair = 61
more_than_enough_pairs = {"fan_out": 401, "signals": 211, "timers": 151}


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_crash_loses_or_repeats_a_recorded_step(name: str) -> None:
    workload = WORKLOADS[name]
    report = explore_scenario(
        workload.scenario,
        pairs=True,
        every=more_than_enough_pairs.get(name, every_pair),
        allowed=workload.allowed,
    )
    assert report.outcome == workload.usual
    assert set(report.hits) == set(CRASHES)
    assert report.cases > 2 * report.writes
    report.raise_for_violations()


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_crash_loses_or_repeats_a_recorded_step_on_sqlite(name: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    scenario = replace(workload.scenario, store_factory=sqlite_factory(tmp_path / "runs.db"))
    report = explore_scenario(scenario, allowed=workload.allowed)
    assert report.outcome == workload.usual
    report.raise_for_violations()


def test_a_long_journal_survives_crashes_all_along_it() -> None:
    report = explore_scenario(LONG.scenario, kinds=CRASHES[1:2], at=range(2, 152, 15))
    assert report.outcome == LONG.usual
    assert report.cases == 11
    report.raise_for_violations()


def test_a_case_repeats_itself_event_for_event() -> None:
    scenario = replace(WORKLOADS["signals"].scenario, workers=2, latency=0.05)
    cases = [run_case(scenario, Faults(seed=5), seed=5) for _ in range(2)]
    assert cases[0] == cases[1]
    assert cases[0].history != run_case(scenario, Faults(seed=6), seed=6).history


def test_a_case_that_a_seed_drew_is_the_same_when_its_faults_are_named() -> None:
    scenario = replace(WORKLOADS["saga"].scenario, workers=2, latency=0.01)
    drawn = run_case(scenario, Faults(seed=3, rates={FaultKind.CRASH_AFTER: 0.3}), seed=3)
    assert drawn.struck
    assert run_case(scenario, Faults(drawn.struck, seed=3), seed=3) == drawn
