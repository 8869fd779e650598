"""A real graph survives SIGKILL at every one of its journal writes, before and after."""

from __future__ import annotations

import pytest

from tests.crash.campaign import killed_everywhere

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_graph_killed_at_any_write_ends_as_if_nothing_had_happened(mode: str) -> None:
    summary = killed_everywhere("graph", mode)
    assert summary["killed"] >= 30, "the graph has more writes than that"
    assert summary["lives"] >= 4, "killed again and again, it takes more lives than that"
