"""Retry settings of other frameworks: Google ADK's meaning, LangGraph's meaning, and refusals."""

from __future__ import annotations

import builtins
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyrula_core.errors import Poison, Transient
from pyrula_core.retry import RetryPolicy
from pyrula_core.retry_config import RetryConfig, as_policy

CASES = json.loads(Path(__file__).with_name("cases").joinpath("adk_retry_config.json").read_text())


class MyVal(ValueError):
    pass


class HTTPError(Exception):
    pass


class ReadTimeout(HTTPError):
    """Named like httpx's, which inherits from no TimeoutError either."""


class NodeTimeoutError(Exception):
    pass


OWN = {kind.__name__: kind for kind in (MyVal, ReadTimeout, NodeTimeoutError)}


def exception(name: str) -> Exception:
    if name == "ExceptionGroup":
        return ExceptionGroup("g", [ValueError()])
    return (OWN.get(name) or getattr(builtins, name))("raised")


# --- the answers of the real library --------------------------------------------------------------


@pytest.mark.parametrize("case", CASES["delays"], ids=lambda case: str(case["config"]))
def test_delays_without_jitter_are_those_of_adk(case):
    policy = RetryConfig(**case["config"]).to_policy()
    waits = [policy.delay(n, 0.5) for n in range(1, len(case["expected"]) + 1)]
    assert waits == case["expected"]


@pytest.mark.parametrize(
    "case", CASES["jitter"], ids=lambda c: f"{c['config']}-{c['failed_attempt']}"
)
def test_delays_with_jitter_are_those_of_adk(case):
    policy = RetryConfig(**case["config"]).to_policy()
    waits = [policy.delay(case["failed_attempt"], u) for u in case["u"]]
    assert waits == pytest.approx(case["expected"], abs=1e-9)


@pytest.mark.parametrize("case", CASES["gate"], ids=lambda case: str(case["max_attempts"]))
def test_the_number_of_attempts_is_that_of_adk(case):
    policy = RetryConfig(max_attempts=case["max_attempts"]).to_policy()
    attempts = 1
    while policy.should_retry(RuntimeError(), attempts):
        attempts += 1
    assert attempts == case["attempts_executed_when_always_failing"]


@pytest.mark.parametrize(
    "case", CASES["match"], ids=lambda case: f"{case['raised']}-{case['exceptions']}"
)
def test_the_exceptions_that_are_retried_are_those_of_adk(case):
    policy = RetryConfig(exceptions=case["exceptions"]).to_policy()
    assert policy.should_retry(exception(case["raised"]), 1) is case["retried"]


def test_no_case_of_the_real_library_is_left_out():
    assert {name: len(CASES[name]) for name in CASES if name != "google_adk"} == {
        "delays": 12,
        "jitter": 24,
        "gate": 7,
        "match": 20,
    }


# --- what ADK accepts and then fails on -----------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_delay": -1.0},  # ADK: sleeps for a negative time
        {"max_delay": -1.0},
        {"backoff_factor": -2.0},  # ADK: every other wait is negative
        {"jitter": -0.5},  # ADK: taken for no jitter
        {"initial_delay": math.inf},  # ADK: inf - inf is nan
        {"max_delay": math.inf},
        {"backoff_factor": math.nan},
        {"jitter": math.inf},
        {"exceptions": "ValueError"},  # ADK: the list of its letters, so nothing is retried
        {"exceptions": ValueError},  # ADK: TypeError, 'type' object is not iterable
        {"exceptions": [1]},
        {"exceptions": [int]},
        {"exceptions": 1},
        {"backoff_factor": 10.0, "max_attempts": 400},  # ADK: OverflowError at attempt 310
        {"max_attempts": 1100},  # ADK: OverflowError at attempt 1025
        {"initial_delay": 1.7e308},
    ],
    ids=str,
)
def test_what_is_a_bug_in_adk_is_refused_with_a_validation_error(fields):
    with pytest.raises(ValidationError):
        RetryConfig(**fields)


def test_the_refusal_of_an_overflow_says_what_to_do():
    with pytest.raises(ValidationError, match="overflows within max_attempts=2000; lower one"):
        RetryConfig(max_attempts=2000, backoff_factor=3.0)


def test_a_misspelt_field_is_refused():
    with pytest.raises(ValidationError, match="max_attempt"):
        RetryConfig(max_attempt=3)


# --- the fields -----------------------------------------------------------------------------------


def test_every_field_defaults_to_none_as_in_adk():
    assert set(RetryConfig().model_dump().values()) == {None}
    assert list(RetryConfig.model_fields) == [
        "max_attempts",
        "initial_delay",
        "max_delay",
        "backoff_factor",
        "jitter",
        "exceptions",
    ]


def test_the_defaults_become_this_policy():
    assert RetryConfig().to_policy() == RetryPolicy(
        max_attempts=5,
        initial_backoff=2.0,
        max_backoff=60.0,
        backoff_multiplier=2.0,
        retryable=None,
        jitter=1.0,
    )


def test_classes_become_their_names():
    assert RetryConfig(exceptions=[MyVal, "KeyError"]).exceptions == ["MyVal", "KeyError"]
    assert RetryConfig(exceptions=(MyVal,)).exceptions == ["MyVal"]


def test_a_class_matches_by_its_name_whatever_its_module():
    policy = RetryConfig(exceptions=[TimeoutError]).to_policy()
    impostor = type("TimeoutError", (Exception,), {})
    assert policy.should_retry(impostor(), 1)


def test_transient_and_poison_override_the_names():
    policy = RetryConfig(exceptions=["KeyError", "Poison"]).to_policy()
    assert policy.should_retry(Transient(), 1)
    assert not policy.should_retry(Poison(), 1)


def test_equal_configs_give_equal_policies():
    a, b = (RetryConfig(jitter=j, exceptions=["A", "B"]) for j in (1.5, 1.5))
    assert a.to_policy() == b.to_policy()
    assert hash(a.to_policy()) == hash(b.to_policy())


@given(
    initial=st.floats(0, 1e6),
    cap=st.floats(0, 1e6),
    factor=st.floats(0, 100),
    jitter=st.floats(0, 10),
    n=st.integers(1, 100),
    u=st.floats(0, 1),
)
def test_the_policy_waits_what_adks_formula_says(initial, cap, factor, jitter, n, u):
    config = RetryConfig(
        initial_delay=initial, max_delay=cap, backoff_factor=factor, jitter=jitter, max_attempts=9
    )
    delay = initial * factor ** (n - 1)
    if jitter > 0:
        delay = min(delay, cap / (1.0 + jitter))
        delay = max(0.0, delay + (2 * u - 1) * jitter * delay)
    expected = min(delay, cap)
    assert config.to_policy().delay(n, u) == pytest.approx(expected, rel=1e-9, abs=1e-6)


# --- as_policy ------------------------------------------------------------------------------------


def test_none_and_our_own_pass_through():
    policy = RetryPolicy(max_attempts=7)
    assert as_policy(None) is None
    assert as_policy(policy) is policy
    assert as_policy(RetryConfig(max_attempts=2)) == RetryConfig(max_attempts=2).to_policy()


class Adk(NamedTuple):
    """Has the fields of ADK's object, and nothing else of it."""

    max_attempts: int | None = None
    initial_delay: float | None = None
    max_delay: float | None = None
    backoff_factor: float | None = None
    jitter: float | None = None
    exceptions: list[str] | None = None


def test_an_object_with_adks_fields_is_taken_for_adks():
    config = {"max_attempts": 3, "jitter": 0.2, "exceptions": ["KeyError"]}
    assert as_policy(Adk(**config)) == RetryConfig(**config).to_policy()


def test_adks_own_object_is_checked_as_well():
    with pytest.raises(ValueError, match="initial_delay"):
        as_policy(Adk(initial_delay=-1.0))


@pytest.mark.parametrize(
    "retry", [3, True, "3", {}, {"max_attempts": 3}, [RetryPolicy()], RetryPolicy, RetryConfig, Adk]
)
def test_anything_else_is_a_type_error_that_says_what_is_accepted(retry):
    with pytest.raises(TypeError, match=r"pass a pyrula_core\.RetryPolicy or RetryConfig, a langg"):
        as_policy(retry)


# --- LangGraph ------------------------------------------------------------------------------------


class Odd:
    """A mixin that is no exception class."""


class OddError(ValueError, Odd):
    pass


def langgraph(**fields: Any) -> RetryPolicy:
    types = pytest.importorskip("langgraph.types")
    policy = as_policy(types.RetryPolicy(**fields))
    assert policy is not None
    return policy


def langgraphs_answer(retry_on: Any, exc: Exception) -> bool:
    types = pytest.importorskip("langgraph.types")
    module = pytest.importorskip("langgraph.pregel._retry")
    return bool(module._should_retry_on(types.RetryPolicy(retry_on=retry_on), exc))


def says_value(exc: Exception) -> str:
    return "yes" if isinstance(exc, ValueError) else ""


RETRY_ON: list[Any] = [
    ValueError,
    (ValueError, KeyError),
    [ConnectionError],
    (),
    Exception,
    BaseException,
    (BaseException,),
    KeyboardInterrupt,
    (KeyboardInterrupt,),
    [Odd],
    (Odd, KeyError),
    says_value,
    lambda exc: False,
    bool,
]
RAISED = [
    ValueError("x"),
    MyVal("x"),
    KeyError("x"),
    ConnectionResetError("x"),
    TimeoutError("x"),
    OddError("x"),
    RuntimeError("x"),
    ExceptionGroup("g", [ValueError()]),
]


@pytest.mark.parametrize("retry_on", RETRY_ON, ids=range(len(RETRY_ON)))
@pytest.mark.parametrize("exc", RAISED, ids=lambda exc: type(exc).__name__)
def test_langgraphs_retry_on_keeps_its_meaning(retry_on, exc):
    policy = langgraph(retry_on=retry_on)
    assert policy.should_retry(exc, 1) is langgraphs_answer(retry_on, exc)


@pytest.mark.parametrize("exc", RAISED, ids=lambda exc: type(exc).__name__)
def test_report_56_langgraphs_default_retry_on_keeps_its_meaning(exc):
    types = pytest.importorskip("langgraph.types")
    expected = types.RetryPolicy().retry_on(exc)
    assert langgraph().should_retry(exc, 1) is expected


def test_plain_classes_stay_visible_in_the_policy():
    assert langgraph(retry_on=ValueError).retryable == (ValueError,)
    assert langgraph(retry_on=[ValueError, KeyError]).retryable == (ValueError, KeyError)
    assert langgraph(retry_on=says_value).retryable is says_value


@pytest.mark.parametrize("retry_on", ["ValueError", [ValueError()], ["ValueError"], None, 5])
def test_a_retry_on_that_langgraph_cannot_use_is_a_type_error(retry_on):
    with pytest.raises(TypeError, match="retry_on="):
        langgraph(retry_on=retry_on)


@pytest.mark.parametrize("max_attempts,attempts", [(1, 1), (3, 3), (0, 1), (-2, 1)])
def test_langgraphs_max_attempts_keeps_its_meaning(max_attempts, attempts):
    assert langgraph(max_attempts=max_attempts).max_attempts == attempts


def test_langgraphs_waits_without_jitter_are_the_same():
    policy = langgraph(initial_interval=0.5, backoff_factor=3.0, max_interval=10.0, jitter=False)
    assert [policy.delay(n, 0.7) for n in range(1, 6)] == [0.5, 1.5, 4.5, 10.0, 10.0]


def test_langgraphs_jitter_adds_up_to_a_second():
    policy = langgraph(initial_interval=0.5, max_interval=128.0)
    assert [policy.delay(1, u) for u in (0.0, 0.5, 1.0)] == [0.5, 1.0, 1.5]


def test_report_57_langgraphs_jitter_stays_within_max_interval():
    policy = langgraph(initial_interval=0.5, max_interval=0.5)
    assert {policy.delay(n, u) for n in (1, 2, 9) for u in (0.0, 0.5, 1.0)} == {0.5}


def test_langgraphs_huge_exponents_do_not_overflow():
    policy = langgraph(max_attempts=5000)
    assert policy.delay(4999, 0.0) == 128.0
    with pytest.raises(OverflowError):
        _ = 2.0**4998


def test_a_negative_interval_is_a_value_error():
    with pytest.raises(ValueError, match="initial_backoff=-1"):
        langgraph(initial_interval=-1)
