"""A fixed part of LangGraph's own tests, run through Pyrula; all of them: ``tests.upstream``.

Needs a package index once, for the sources of the installed LangGraph; what was fetched is kept.
"""

from __future__ import annotations

import os

import pytest

from tests.upstream.outcomes import compare, expected_reasons, table
from tests.upstream.running import run
from tests.upstream.suites import SUITES, Unavailable
from tests.upstream.workbench import Workbench, prepare

tests_min = 60
part_seconds_max = 300

FILES = (
    "tests/test_pregel.py",
    "tests/test_pregel_async.py",
    "tests/test_subgraph_persistence.py",
)

NAMES = (
    "checkpoint_recovery",
    "command_with_static_breakpoints",
    "conditional_entrypoint_graph_state",
    "fork_and_update_task_results",
    "get_subgraphs_matches_whole",
    "interrupt_task_functional",
    "multi_resume",
    "multiple_subgraphs_mixed",
    "node_error_handler",
    "parent_command_goto_deeply_nested",
    "send_dedupe_on_resume",
    "send_with_untracked_value",
    "stateful_update_state",
    "subgraph_streaming",
)
"""Quick ones, of each shape: what a wrapper or a checkpointer is most likely to break."""


@pytest.fixture(scope="module")
def bench() -> Workbench:
    """The suite, ready to run. In CI it has to be; elsewhere there may be no way to fetch it."""
    try:
        return prepare(SUITES["langgraph"])
    except Unavailable as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            raise
        pytest.skip(f"LangGraph's sources cannot be fetched here: {error}")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["wrapped", "saver"])
def test_what_langgraphs_own_tests_say_does_not_change(bench: Workbench, mode: str) -> None:
    chosen = f"({' or '.join(NAMES)}) and not sqlite_aes"
    here = run(bench, mode, paths=FILES, select=chosen, workers=1, seconds_max=part_seconds_max)
    assert len(here) >= tests_min, "LangGraph's tests have other names now: choose again"
    reasons = expected_reasons("langgraph", mode)
    broken = sorted(compare("langgraph", mode, plain={}, here=here, reasons=reasons).new)
    plain = run(bench, "plain", paths=broken, workers=1) if broken else {}
    found = compare(
        "langgraph",
        mode,
        plain={**here, **plain},
        here=here,
        reasons=reasons,
    )
    assert not found.new, table([found])
