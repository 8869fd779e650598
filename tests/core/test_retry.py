"""When a step is tried again and how long it waits: ``RetryPolicy``."""

from __future__ import annotations

import asyncio
import doctest
import email.message
import math
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_core import retry
from pyrula_core.errors import Fatal, Poison, RecordedError, Transient
from pyrula_core.failure import FailureRecord
from pyrula_core.rebuild import rebuild
from pyrula_core.retry import RetryPolicy, requested_wait

POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 10**9),
    initial_backoff=st.floats(0, 1e308),
    max_backoff=st.floats(0, 1e308),
    backoff_multiplier=st.floats(0, 1e308),
    jitter=st.floats(0, 1),
)
FAILURES = st.integers(1, 100) | st.integers(1, 10**400)
RANDOM = st.floats(0, 1)


class Named(Exception):
    """An exception with whatever attributes a library gives to its own."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("service unavailable")
        self.__dict__.update(attributes)


def test_the_example_of_the_docstring_holds():
    assert doctest.testmod(retry).failed == 0


def test_the_defaults_are_those_of_the_documentation():
    policy = RetryPolicy()
    assert policy == RetryPolicy(3, 0.1, 30.0, 2.0, None, 0.5)
    assert (policy.durable, policy.deadline, policy.retry_after) == (False, None, False)


# --- how long -------------------------------------------------------------------------------------


@given(POLICIES, FAILURES, RANDOM)
def test_the_wait_lies_between_the_jittered_and_the_whole_backoff(policy, n, random):
    backoff = policy.backoff(n)
    wait = policy.delay(n, random)
    assert 0 <= wait <= backoff <= policy.max_backoff
    assert wait >= backoff * (1 - policy.jitter) * (1 - 1e-12)
    assert math.isfinite(wait)


@given(POLICIES, FAILURES, RANDOM, RANDOM)
def test_the_wait_grows_with_the_random_number(policy, n, a, b):
    low, high = sorted((a, b))
    assert policy.delay(n, low) <= policy.delay(n, high)


@given(POLICIES, st.integers(1, 1000))
def test_the_backoff_never_shrinks_with_a_multiplier_of_at_least_1(policy, n):
    growing = replace(policy, backoff_multiplier=max(1.0, policy.backoff_multiplier))
    assert growing.backoff(n) <= growing.backoff(n + 1)


@given(POLICIES, FAILURES)
def test_without_jitter_chance_has_no_say(policy, n):
    plain = replace(policy, jitter=0.0)
    assert plain.delay(n, 0.0) == plain.delay(n, 1.0) == plain.backoff(n)


def test_the_cap_comes_before_the_jitter():
    policy = RetryPolicy(initial_backoff=100.0, max_backoff=10.0, jitter=0.5)
    assert [policy.delay(1, u) for u in (0.0, 0.5, 1.0)] == [5.0, 7.5, 10.0]


def test_report_57_jitter_never_exceeds_the_longest_wait():
    policy = RetryPolicy(initial_backoff=0.5, max_backoff=0.5, jitter=1.0)
    assert max(policy.delay(n, 1.0) for n in range(1, 50)) == 0.5


@pytest.mark.parametrize(
    "policy,n,expected",
    [
        (RetryPolicy(jitter=0.0), 10**6, 30.0),
        (RetryPolicy(jitter=0.0), 10**400, 30.0),
        (RetryPolicy(jitter=0.0, backoff_multiplier=1e308), 3, 30.0),
        (RetryPolicy(jitter=0.0, backoff_multiplier=1.0), 10**400, 0.1),
        (RetryPolicy(jitter=0.0, backoff_multiplier=0.5), 10**400, 0.0),
        (RetryPolicy(jitter=0.0, backoff_multiplier=0.0), 1, 0.1),
        (RetryPolicy(jitter=0.0, backoff_multiplier=0.0), 2, 0.0),
        (RetryPolicy(jitter=0.0, initial_backoff=0.0), 10**6, 0.0),
        (RetryPolicy(jitter=0.0, initial_backoff=0, max_backoff=5, backoff_multiplier=2), 10, 0.0),
        (RetryPolicy(jitter=0.0, initial_backoff=1, max_backoff=5, backoff_multiplier=2), 3, 4.0),
    ],
)
def test_huge_exponents_clamp_and_never_overflow(policy, n, expected):
    assert policy.delay(n, 1.0) == expected


@pytest.mark.parametrize("n,random", [(0, 0.5), (-1, 0.5), (1, -0.1), (1, 1.1), (1, math.nan)])
def test_a_delay_needs_a_failure_and_a_random_number_in_range(n, random):
    with pytest.raises(ValueError, match="must be at least 1 and random="):
        RetryPolicy().delay(n, random)


# --- whether --------------------------------------------------------------------------------------


@given(st.integers(1, 20), st.integers(1, 40))
def test_max_attempts_counts_the_first_try(max_attempts, attempt):
    policy = RetryPolicy(max_attempts=max_attempts)
    assert policy.should_retry(ValueError(), attempt) is (attempt < max_attempts)


@pytest.mark.parametrize(
    "retryable,exc,expected",
    [
        (None, ValueError(), True),
        (None, ExceptionGroup("g", [ValueError()]), True),
        ((), ValueError(), False),
        ((ConnectionError,), ConnectionResetError(), True),
        ((ConnectionError,), TimeoutError(), False),
        ([KeyError, TimeoutError], TimeoutError(), True),
        (lambda exc: "yes" in str(exc), ValueError("yes"), True),
        (lambda exc: "yes" in str(exc), ValueError("no"), False),
        (lambda exc: 1, ValueError(), True),
    ],
)
def test_retryable_says_which_exceptions_are_retried(retryable, exc, expected):
    assert RetryPolicy(retryable=retryable).should_retry(exc, 1) is expected


@pytest.mark.parametrize("retryable", [None, (), (KeyError,), lambda exc: False, lambda exc: True])
def test_transient_poison_and_fatal_override_retryable(retryable):
    policy = RetryPolicy(max_attempts=2, retryable=retryable)
    assert policy.should_retry(Transient("again"), 1)
    assert not policy.should_retry(Transient("again"), 2)
    assert not policy.should_retry(Poison("never"), 1)
    assert not policy.should_retry(Fatal("never"), 1)


@pytest.mark.parametrize("retryable", [None, (RecordedError,), (Exception,), lambda exc: True])
def test_a_recorded_error_is_never_retried(retryable):
    policy = RetryPolicy(retryable=retryable)
    stand_in = rebuild(FailureRecord("builtins:ValueError", "x", rebuildable=False))
    assert isinstance(stand_in, ValueError)
    assert not policy.should_retry(stand_in, 1)
    assert not policy.should_retry(
        rebuild(FailureRecord("pyrula_core.errors:Transient", "x", rebuildable=False)), 1
    )


@pytest.mark.parametrize("exc", [asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit()])
def test_what_is_no_exception_is_never_retried(exc):
    assert not RetryPolicy(retryable=lambda _: True).should_retry(exc, 1)
    assert not RetryPolicy().should_retry(exc, 1)


def test_what_a_retryable_function_raises_leaves_should_retry():
    with pytest.raises(ZeroDivisionError):
        RetryPolicy(retryable=lambda exc: 1 / 0).should_retry(ValueError(), 1)


# --- the next wait --------------------------------------------------------------------------------


def test_the_next_wait_is_the_delay_or_none():
    policy = RetryPolicy(max_attempts=2, initial_backoff=4.0, jitter=0.0)
    assert policy.next_wait(ValueError(), 1, random=0.3) == 4.0
    assert policy.next_wait(ValueError(), 2, random=0.3) is None
    assert policy.next_wait(Poison(), 1, random=0.3) is None


@given(elapsed=st.floats(0, 100))
def test_no_try_begins_after_the_deadline(elapsed):
    policy = RetryPolicy(initial_backoff=4.0, jitter=0.0, deadline=10.0)
    wait = policy.next_wait(ValueError(), 1, random=0.0, elapsed=elapsed)
    assert (wait is None) is (elapsed + 4.0 > 10.0)


def test_retry_after_is_honoured_when_asked_for_and_capped():
    policy = RetryPolicy(initial_backoff=1.0, jitter=0.0, max_backoff=20.0)
    error = Named(retry_after=7)
    assert policy.next_wait(error, 1, random=0.0) == 1.0
    honouring = replace(policy, retry_after=True)
    assert honouring.next_wait(error, 1, random=0.0) == 7.0
    assert honouring.next_wait(Named(retry_after=0.1), 1, random=0.0) == 1.0
    assert honouring.next_wait(Named(retry_after=10**9), 1, random=0.0) == 20.0
    assert honouring.next_wait(ValueError(), 1, random=0.0) == 1.0


def message(value: str) -> email.message.Message:
    headers = email.message.Message()
    headers["Retry-After"] = value
    return headers


class Raising:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "attributes,expected",
    [
        ({}, None),
        ({"retry_after": 3}, 3.0),
        ({"retry_after": "2.5"}, 2.5),
        ({"retry_after": timedelta(minutes=1)}, 60.0),
        ({"retry_after": -4}, 0.0),
        ({"retry_after": True}, None),
        ({"retry_after": math.nan}, None),
        ({"retry_after": math.inf}, None),
        ({"retry_after": 10**400}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": [3]}, None),
        ({"retry_after": lambda: 3}, None),
        ({"headers": {"Retry-After": "5"}}, 5.0),
        ({"headers": {"retry-after": 5}}, 5.0),
        ({"headers": {b"x": 1, "RETRY-AFTER": "5"}}, 5.0),
        ({"headers": message("8")}, 8.0),
        ({"headers": None}, None),
        ({"headers": "Retry-After"}, None),
        ({"headers": Raising()}, None),
        ({"response": SimpleNamespace(headers={"Retry-After": "9"})}, 9.0),
        ({"response": SimpleNamespace(headers={})}, None),
        ({"response": {"Error": {}}}, None),
        ({"response": Raising()}, None),
        ({"retry_after": None, "response": SimpleNamespace(headers={"Retry-After": "9"})}, 9.0),
        ({"headers": {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}}, 59.0),
        ({"headers": {"Retry-After": "Fri, 31 Dec 1999 23:00:00 GMT"}}, 0.0),
        ({"headers": {"Retry-After": "Fri, 31 Dec 99999999999 23:00:00 GMT"}}, None),
    ],
)
def test_the_requested_wait_is_found_whatever_the_library(attributes, expected):
    assert requested_wait(Named(**attributes), now=946684740.0) == expected


def test_a_date_needs_the_time_to_compare_with():
    error = Named(headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})
    assert requested_wait(error) is None


def test_the_headers_of_httpx_and_requests_are_read():
    httpx = pytest.importorskip("httpx")
    requests = pytest.importorskip("requests")
    answer = httpx.Response(
        429, headers={"Retry-After": "11"}, request=httpx.Request("GET", "http://service.test")
    )
    with pytest.raises(httpx.HTTPStatusError) as caught:
        answer.raise_for_status()
    assert requested_wait(caught.value) == 11.0
    response = requests.Response()
    response.headers["retry-after"] = "12"
    assert requested_wait(requests.HTTPError("slow down", response=response)) == 12.0


# --- bad fields -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 2.0},
        {"max_attempts": True},
        {"max_attempts": None},
        {"initial_backoff": -0.1},
        {"initial_backoff": math.nan},
        {"initial_backoff": math.inf},
        {"initial_backoff": 10**400},
        {"initial_backoff": "1"},
        {"initial_backoff": None},
        {"max_backoff": -1},
        {"max_backoff": math.inf},
        {"backoff_multiplier": -2},
        {"backoff_multiplier": math.nan},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": True},
        {"deadline": -1},
        {"deadline": math.inf},
        {"durable": 1},
        {"retry_after": "yes"},
        {"retryable": ValueError},
        {"retryable": "ValueError"},
        {"retryable": ("ValueError",)},
        {"retryable": (ValueError, asyncio.CancelledError)},
        {"retryable": (ValueError(),)},
        {"retryable": 5},
    ],
    ids=str,
)
def test_a_bad_field_is_named_in_a_value_error(fields):
    (name,) = fields
    with pytest.raises(ValueError, match=rf"^{name}=.* must be "):
        RetryPolicy(**fields)


def test_a_list_of_exception_types_becomes_a_tuple():
    assert RetryPolicy(retryable=[KeyError]).retryable == (KeyError,)
    assert hash(RetryPolicy(retryable=[KeyError])) == hash(RetryPolicy(retryable=(KeyError,)))
