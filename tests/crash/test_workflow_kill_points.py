"""A plain workflow survives SIGKILL at every one of its journal writes, before and after."""

from __future__ import annotations

import pytest

from tests.crash.campaign import killed_everywhere

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_workflow_killed_at_any_write_takes_the_branches_its_journal_took(mode: str) -> None:
    summary = killed_everywhere("workflow", mode)
    assert summary["killed"] >= 20, "the workflow has more writes than that"
    assert summary["lives"] >= 4, "killed again and again, it takes more lives than that"
