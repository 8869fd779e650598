"""When a failed step is tried again, and how long it waits before that.

Owns ``RetryPolicy``. Pure: it is given the random number, the time and the seconds that have
passed, so that the same inputs always give the same answer. It does not sleep and does not count
attempts; the engine does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from email.utils import mktime_tz, parsedate_tz
from math import isfinite, nan
from typing import Any, ClassVar, Final

from pyrula_core.errors import Fatal, Poison, RecordedError, Transient

__all__ = ["RetryPolicy", "Retryable", "requested_wait"]

exponent_max: Final = 2**53
"""A float holds every int up to here; beyond, Python refuses the power of a very large int."""

NUMBER: Final = "a finite number of at least 0"

Retryable = tuple[type[Exception], ...] | Callable[[Exception], bool] | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a step is tried, and how long it waits in between.

    ``max_attempts`` counts the first try. After the n-th failure the wait is
    ``initial_backoff * backoff_multiplier**(n-1)`` seconds, at most ``max_backoff``, times a random
    factor from ``[1 - jitter, 1]``. ``retryable`` is a tuple of exception types, or a function that
    is asked with the exception; None means every Exception. Whatever it says, Transient is retried
    and Poison, Fatal, RecordedError and what is no Exception (a cancellation) never are.

    ``durable=True`` records each failed attempt, so that neither a crash nor a long wait resets the
    count. ``deadline`` is the seconds, counted from the first try and with every downtime, after
    which no further try begins. ``retry_after=True`` waits at least as long as the failed service
    asked for (``exc.retry_after`` or a ``Retry-After`` header), at most ``max_backoff``.

    Raises ValueError for a field that makes no sense.

    >>> policy = RetryPolicy(max_attempts=5, initial_backoff=0.5, jitter=0.0)
    >>> [policy.delay(n, random=0.0) for n in (1, 2, 3)]
    [0.5, 1.0, 2.0]
    """

    jitter_max: ClassVar[float] = 1.0

    max_attempts: int = 3
    initial_backoff: float = 0.1
    max_backoff: float = 30.0
    backoff_multiplier: float = 2.0
    retryable: Retryable = None
    jitter: float = 0.5
    _: KW_ONLY
    durable: bool = False
    deadline: float | None = None
    retry_after: bool = False

    def __post_init__(self) -> None:
        whole = type(self.max_attempts) is int and self.max_attempts >= 1
        check(
            "max_attempts", self.max_attempts, whole, "an int of at least 1, the first try counts"
        )
        for name in ("initial_backoff", "max_backoff", "backoff_multiplier"):
            check(name, getattr(self, name), in_range(getattr(self, name)), NUMBER)
        within = in_range(self.jitter) and self.jitter <= self.jitter_max
        check("jitter", self.jitter, within, f"a number from 0 to {self.jitter_max:g}")
        check("deadline", self.deadline, self.deadline is None or in_range(self.deadline), NUMBER)
        for name in ("durable", "retry_after"):
            check(name, getattr(self, name), isinstance(getattr(self, name), bool), "True or False")
        object.__setattr__(self, "retryable", checked_retryable(self.retryable))

    def should_retry(self, exc: BaseException, attempt: int) -> bool:
        """Tell whether a try follows the ``attempt``-th one (from 1), which raised ``exc``.

        A ``retryable`` function is asked only where nothing else has decided; what it raises leaves
        here.
        """
        kind = type(exc)
        if attempt >= self.max_attempts or not issubclass(kind, Exception):
            return False
        if issubclass(kind, (RecordedError, Poison, Fatal)):
            return False
        if self.retryable is None or issubclass(kind, Transient):
            return True
        if isinstance(self.retryable, tuple):
            return issubclass(kind, self.retryable)
        return bool(self.retryable(exc))  # type: ignore[arg-type]

    def delay(self, n: int, random: float) -> float:
        """Return the seconds to wait after the ``n``-th failure (from 1).

        ``random`` is from ``[0, 1]``: 0 gives the shortest wait, 1 the longest.
        """
        if n < 1 or not 0 <= random <= 1:
            raise ValueError(f"n={n!r} must be at least 1 and random={random!r} from [0, 1]")
        return self.spread(self.backoff(n), random)

    def next_wait(
        self,
        exc: BaseException,
        attempt: int,
        *,
        random: float,
        elapsed: float = 0.0,
        now: float | None = None,
    ) -> float | None:
        """Return the seconds until the next try, or None when there is none.

        ``elapsed`` is the seconds since the first try began, for ``deadline``; ``now`` the Unix
        time, which a ``Retry-After`` header that holds a date is compared with.
        """
        if not self.should_retry(exc, attempt):
            return None
        wait = self.delay(attempt, random)
        if self.retry_after:
            wait = max(wait, min(requested_wait(exc, now=now) or 0.0, self.max_backoff))
        if self.deadline is not None and elapsed + wait > self.deadline:
            return None
        return wait

    def backoff(self, n: int) -> float:
        """Return the wait after the ``n``-th failure before jitter; never more than the cap."""
        if self.initial_backoff == 0:
            return 0.0
        try:
            factor = float(self.backoff_multiplier) ** min(n - 1, exponent_max)
        except OverflowError:
            return self.max_backoff
        return min(self.initial_backoff * factor, self.max_backoff)

    def spread(self, backoff: float, random: float) -> float:
        """Return the wait after jitter."""
        return max(0.0, backoff * (1 - self.jitter * (1 - random)))


def check(name: str, value: object, holds: object, wanted: str) -> None:
    """Raise ValueError for a field that is not what it must be."""
    if not holds:
        raise ValueError(f"{name}={value!r} must be {wanted}")


def in_range(value: object) -> bool:
    """Tell whether ``value`` is a finite number of at least 0."""
    # A bool is an int to Python, and jitter=True is a mistake here (LangGraph's is a bool).
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value) and value >= 0
    except OverflowError:  # an int that no float can hold
        return False


def checked_retryable(retryable: Any) -> Retryable:
    """Return ``retryable`` with a list made a tuple; raises ValueError for what it cannot be."""
    if isinstance(retryable, list | tuple):
        for kind in retryable:
            an_exception = isinstance(kind, type) and issubclass(kind, Exception)
            check("retryable", retryable, an_exception, f"of subclasses of Exception, not {kind!r}")
        return tuple(retryable)
    # A class can be called, and the result is true: it would pass for a function that says yes.
    a_function = callable(retryable) and not isinstance(retryable, type)
    wanted = "None, a tuple of exception types such as (ConnectionError,), or a function"
    check("retryable", retryable, retryable is None or a_function, wanted)
    return retryable  # type: ignore[no-any-return]


# --- what the failed service asked for ------------------------------------------------------------


def requested_wait(exc: BaseException, *, now: float | None = None) -> float | None:
    """Return the seconds that the failed service asked to wait, or None.

    Looked for are ``exc.retry_after`` and the header ``Retry-After`` in ``exc.response.headers`` or
    ``exc.headers``, whichever library the exception comes from. A date in the header (RFC 9110,
    10.2.3) needs ``now``, the Unix time.
    """
    wait = seconds(attribute(exc, "retry_after"), now)
    for holder in (attribute(exc, "response"), exc):
        if wait is None:
            wait = seconds(header(attribute(holder, "headers")), now)
    return wait


def attribute(holder: object, name: str) -> Any:
    """Return an attribute, or None where there is none or reading it fails."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign class may raise anything
        return None


def header(headers: Any) -> Any:
    """Return the value of ``Retry-After``, whatever the case of the keys."""
    try:
        if not isinstance(headers, Mapping):
            return headers.get("Retry-After")
        return next((value for name, value in headers.items() if is_retry_after(name)), None)
    except Exception:  # noqa: BLE001 - a foreign object that only looks like headers
        return None


def is_retry_after(name: object) -> bool:
    """Tell whether this is the header's name."""
    return isinstance(name, str) and name.lower() == "retry-after"


def seconds(value: Any, now: float | None) -> float | None:
    """Return a wait as seconds of at least 0, or None when it cannot be understood."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        wait = float(value)
    except (ValueError, OverflowError):
        wait = seconds_until(str(value), now)
    return max(0.0, wait) if isfinite(wait) else None


def seconds_until(date: str, now: float | None) -> float:
    """Return the seconds until a date of a header; not a number when it is no date."""
    try:
        parsed = parsedate_tz(date)
        return nan if parsed is None or now is None else mktime_tz(parsed) - now
    except (ValueError, OverflowError):
        return nan
