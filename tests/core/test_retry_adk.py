"""``RetryConfig`` against the real Google ADK, where it is installed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyrula_core.retry_config import RetryConfig, as_policy

adk = pytest.importorskip("google.adk.workflow")
retry = pytest.importorskip("google.adk.workflow.utils._retry_utils")
node = pytest.importorskip("google.adk.workflow._node_state")
randomness = pytest.importorskip("google.adk.platform._random")

KINDS = [ValueError, KeyError, OSError, ConnectionResetError, RuntimeError, UnicodeError]
NAMES = [*(kind.__name__ for kind in KINDS), "Exception", "object", "IOError", "LookupError", "*"]


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "max_attempts": optional(st.integers(-3, 50)),
        "initial_delay": optional(st.floats(0, 1e4)),
        "max_delay": optional(st.floats(0, 1e4)),
        "backoff_factor": optional(st.floats(0, 50)),
        "jitter": optional(st.floats(0, 5)),
        "exceptions": optional(st.lists(st.sampled_from([*NAMES, *KINDS]), max_size=3)),
    },
)


class Drawn:
    """A source of randomness whose ``uniform`` is at a chosen place of its range."""

    def __init__(self, u: float) -> None:
        self.u = u

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.u


@given(fields=CONFIGS, attempt=st.integers(1, 49), u=st.floats(0, 1))
def test_the_wait_is_the_one_adk_computes(fields, attempt, u):
    state = node.NodeState(attempt_count=attempt)
    theirs = adk.RetryConfig(**fields)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "get_random", lambda: Drawn(u))
        expected = retry._get_retry_delay(theirs, state)
    for policy in (RetryConfig(**fields).to_policy(), as_policy(theirs)):
        assert policy.delay(attempt, u) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(fields=CONFIGS, attempt=st.integers(1, 60), kind=st.sampled_from(KINDS))
def test_the_decision_is_the_one_adk_makes(fields, attempt, kind):
    state = node.NodeState(attempt_count=attempt)
    theirs = adk.RetryConfig(**fields)
    expected = retry._should_retry_node(kind("raised"), theirs, state)
    for policy in (RetryConfig(**fields).to_policy(), as_policy(theirs)):
        assert policy.should_retry(kind("raised"), attempt) is expected


@given(fields=CONFIGS)
def test_the_fields_hold_what_adks_hold(fields):
    assert RetryConfig(**fields).model_dump() == adk.RetryConfig(**fields).model_dump()


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_delay": -1.0},
        {"max_delay": -1.0},
        {"backoff_factor": -2.0},
        {"jitter": -0.5},
        {"max_delay": math.inf},
        {"exceptions": "ValueError"},
        {"max_attempts": 1100},
    ],
    ids=str,
)
def test_what_adk_takes_although_it_is_a_bug_is_refused(fields):
    theirs = adk.RetryConfig(**fields)
    with pytest.raises(ValidationError):
        RetryConfig(**fields)
    if fields != {"exceptions": "ValueError"}:  # ADK has made a list of letters of it by then
        with pytest.raises(ValueError, match="validation error"):
            as_policy(theirs)


def test_adk_overflows_where_ours_refuses():
    state = node.NodeState(attempt_count=1099)
    with pytest.raises(OverflowError):
        retry._get_retry_delay(adk.RetryConfig(max_attempts=1100), state)
