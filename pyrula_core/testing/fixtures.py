"""Give tests of workflows a virtual clock, a store and a runner, as pytest fixtures.

Put this into your ``conftest.py``::

    pytest_plugins = ["pyrula_core.testing.fixtures"]

``pyrula_simulate`` runs a workflow from beginning to end on virtual time, days in milliseconds::

    def test_a_reminder_is_sent_after_three_days(pyrula_simulate):
        case = pyrula_simulate(reminder, "ann")
        assert case.outcome.output == "sent"

``pyrula_runner`` runs registered workflows in an async test, on a store and a clock that the test
looks at and moves itself::

    async def test_a_reminder_waits(pyrula_runner, pyrula_clock):
        assert (await pyrula_runner.run("reminder", "r-1", "ann")).status == "waiting"
        pyrula_clock.advance(86_400)
        assert (await pyrula_runner.run("reminder", "r-1")).status == "complete"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyrula_core.engine import Engine
from pyrula_core.inline import InlineWorkflowRunner
from pyrula_core.ports import Store
from pyrula_core.registry import REGISTRY
from pyrula_core.stores.memory import MemoryStore
from pyrula_core.testing.clock import ManualClock, SeededEntropy
from pyrula_core.testing.scenario import Case, simulate

__all__ = ["pyrula_clock", "pyrula_runner", "pyrula_simulate", "pyrula_store"]


@pytest.fixture
def pyrula_clock() -> ManualClock:
    """Give a clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture
def pyrula_store(pyrula_clock: ManualClock) -> Iterator[Store]:
    """Give an empty memory store on ``pyrula_clock``."""
    with MemoryStore(clock=pyrula_clock) as store:
        yield store


@pytest.fixture
def pyrula_runner(pyrula_store: Store, pyrula_clock: ManualClock) -> InlineWorkflowRunner:
    """Give a runner on ``pyrula_store`` and ``pyrula_clock``.

    Its ``client`` sends signals and answers; its randomness repeats itself.
    """
    engine = Engine(
        pyrula_store, REGISTRY, clock=pyrula_clock, entropy=SeededEntropy(0), keeper=None
    )
    return InlineWorkflowRunner(registry=REGISTRY, engine=engine)


@pytest.fixture
def pyrula_simulate() -> Callable[..., Case]:
    """Give the function ``pyrula_core.testing.simulate``."""
    return simulate
