"""The simulator notices a broken promise: every mutant is killed, the real engine is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_core.testing import Fault, Faults
from pyrula_core.testing.explore import judge
from pyrula_core.testing.scenario import Scenario, memory, run_case
from tests.simulation.mutants import KILLS, Mutant
from tests.simulation.workloads import WORKLOADS


def complaints(mutant: Mutant, scenario: Scenario, *, broken: bool) -> list[str]:
    """Return what is wrong with a case, against one of the real engine without faults."""
    allowed = WORKLOADS[mutant.workload].allowed
    usual = run_case(scenario, Faults())
    factory = (lambda clock: mutant.store(clock=clock)) if broken and mutant.store else memory
    changes = {**mutant.world, "store_factory": factory, "turns_max": 10_000}
    if not broken:
        changes.pop("worker_type", None)
    faults = Faults([Fault.parse(text) for text in mutant.faults.split(",") if text])
    case = run_case(replace(scenario, **changes), faults)
    return list(judge(case, usual, scenario, allowed))


@pytest.mark.parametrize("mutant", KILLS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = WORKLOADS[mutant.workload].scenario
    assert complaints(mutant, scenario, broken=False) == []
    mutant.patch(monkeypatch)
    assert complaints(mutant, scenario, broken=True)


def test_ten_of_the_fourteen_mutants_of_the_plan_are_here() -> None:
    assert len({mutant.name for mutant in KILLS}) >= 10
