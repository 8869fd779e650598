"""Retry settings written for other frameworks, as a ``RetryPolicy`` of ours.

Owns ``RetryConfig``, which has the fields and the meaning of Google ADK's, and ``as_policy``, which
takes whatever may stand behind ``retry=``. Foreign objects are known by their fields; their
packages are never imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pyrula_core.retry import Retryable, RetryPolicy

__all__ = ["RetryConfig", "as_policy"]

ADK_FIELDS: Final = (
    "max_attempts",
    "initial_delay",
    "max_delay",
    "backoff_factor",
    "jitter",
    "exceptions",
)
LANGGRAPH_FIELDS: Final = (
    "initial_interval",
    "backoff_factor",
    "max_interval",
    "max_attempts",
    "jitter",
    "retry_on",
)
langgraph_jitter_seconds_max: Final = 1.0

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class RetryConfig(BaseModel):
    """The ``RetryConfig`` of Google ADK: same fields, same defaults, same meaning.

    A field left None means 5 attempts (the first one counted; 0 or less means 1), 1 second before
    the second, at most 60 seconds, factor 2, jitter 1, every exception. ``exceptions`` holds
    classes or their names; a name matches when any class that the exception inherits from has it,
    whatever the module. Jitter j spreads a wait d over ``[(1-j)*d, (1+j)*d]``.

    What ADK accepts and then fails on is refused with a ValidationError: negative or infinite
    numbers, a bare str as ``exceptions``, and a ``backoff_factor`` whose powers overflow within
    ``max_attempts``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_attempts: int | None = None
    initial_delay: NotNegative | None = None
    max_delay: NotNegative | None = None
    backoff_factor: NotNegative | None = None
    jitter: NotNegative | None = None
    exceptions: list[str | type[BaseException]] | None = None

    @field_validator("exceptions", mode="before")
    @classmethod
    def names_of_classes(cls, value: Any) -> Any:
        """Turn exception classes into their names, as ADK does."""
        if value is None:
            return None
        if isinstance(value, str | type) or not hasattr(value, "__iter__"):
            raise ValueError(f"exceptions={value!r} must be a list, for instance ['ValueError']")
        return [class_name(item) for item in value]

    @model_validator(mode="after")
    def stays_finite(self) -> RetryConfig:
        """Refuse what overflows when the last wait is computed."""
        try:
            policy = self.to_policy()
            _ = policy.backoff_multiplier ** max(0, policy.max_attempts - 2)
        except OverflowError:
            raise ValueError(
                f"backoff_factor={self.backoff_factor!r} overflows within "
                f"max_attempts={self.max_attempts!r}; lower one of them, or use RetryPolicy, "
                "which stays at its max_backoff"
            ) from None
        return self

    def to_policy(self) -> RetryPolicy:
        """Return the RetryPolicy that waits and retries as ADK would.

        ADK spreads a wait to both sides and ours only shortens it, so the backoff is the longest
        wait that ADK's jitter gives: ``initial_delay * (1 + j)``, with ``2j / (1 + j)`` as jitter.
        """
        j = or_default(self.jitter, 1.0)
        longest = or_default(self.initial_delay, 1.0) * (1 + j)
        if not isfinite(longest):
            raise ValueError(f"initial_delay * (1 + jitter) is {longest}; lower one of them")
        names = None if self.exceptions is None else frozenset(map(class_name, self.exceptions))
        kind = RetryPolicy if j <= 1 else WideJitterPolicy
        return kind(
            max_attempts=max(1, 5 if self.max_attempts is None else self.max_attempts),
            initial_backoff=longest,
            max_backoff=or_default(self.max_delay, 60.0),
            backoff_multiplier=or_default(self.backoff_factor, 2.0),
            retryable=None if names is None else NamedInMro(names),
            jitter=2 * (j / (1 + j)),
        )


def as_policy(retry: object) -> RetryPolicy | None:
    """Return what stands behind ``retry=`` as a RetryPolicy; None stays None.

    Takes a RetryPolicy, a RetryConfig, ADK's own RetryConfig and LangGraph's RetryPolicy. Raises
    TypeError for anything else, ValueError (pydantic's ValidationError is one) for values that make
    no sense.
    """
    if retry is None or isinstance(retry, RetryPolicy):
        return retry
    if isinstance(retry, RetryConfig):
        return retry.to_policy()
    # A class has the fields of its instances as attributes; it is a forgotten pair of brackets.
    if not isinstance(retry, type):
        if all(hasattr(retry, name) for name in ADK_FIELDS):
            return RetryConfig(**{name: getattr(retry, name) for name in ADK_FIELDS}).to_policy()
        if all(hasattr(retry, name) for name in LANGGRAPH_FIELDS):
            return from_langgraph(retry)
    raise TypeError(
        f"retry={retry!r} is no retry policy: pass a pyrula_core.RetryPolicy or RetryConfig, "
        "a langgraph.types.RetryPolicy, a google.adk RetryConfig, or None"
    )


# --- Google ADK -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedInMro:
    """Tells whether an exception's class, or any it inherits from, has one of the names."""

    names: frozenset[str]

    def __call__(self, exc: Exception) -> bool:
        # ADK leaves out object, so that naming it does not silently mean every exception.
        return any(kind.__name__ in self.names for kind in type(exc).__mro__ if kind is not object)


@dataclass(frozen=True, slots=True)
class WideJitterPolicy(RetryPolicy):
    """A policy with ADK's jitter above 1, whose shortest waits would be negative and are 0."""

    jitter_max: ClassVar[float] = 2.0


def class_name(item: object) -> str:
    """Return the name of an exception class, or a name as it is."""
    if isinstance(item, str):
        return item
    if isinstance(item, type) and issubclass(item, BaseException):
        return item.__name__
    raise ValueError(f"exceptions holds {item!r}, which is no exception class and no name of one")


def or_default(value: float | None, default: float) -> float:
    """Return ``value``, or the default that ADK puts for None."""
    return default if value is None else value


# --- LangGraph ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedJitterPolicy(RetryPolicy):
    """A policy with LangGraph's jitter: up to one second on top of the wait.

    Unlike there the sum stays within ``max_backoff``, which is what ``max_interval`` promises
    (LangGraph issues 7554 and 7850: it slept 1.5 s with a maximum of 0.5).
    """

    def spread(self, backoff: float, random: float) -> float:
        """Return the wait after jitter."""
        return min(backoff + random * langgraph_jitter_seconds_max, self.max_backoff)


def from_langgraph(retry: Any) -> RetryPolicy:
    """Return a policy of ours for LangGraph's; there 0 attempts mean 1 as well."""
    kind = AddedJitterPolicy if retry.jitter else RetryPolicy
    return kind(
        max_attempts=max(1, retry.max_attempts),
        initial_backoff=retry.initial_interval,
        max_backoff=retry.max_interval,
        backoff_multiplier=retry.backoff_factor,
        retryable=langgraph_retryable(retry.retry_on),
        jitter=0.0,
    )


def langgraph_retryable(retry_on: Any) -> Retryable:
    """Return LangGraph's ``retry_on`` with exactly its meaning, decided in its order."""
    several = isinstance(retry_on, Sequence)
    kinds = tuple(retry_on) if several else (retry_on,)
    if all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        return kinds
    if several and all(isinstance(kind, type) for kind in kinds):
        return lambda exc: isinstance(exc, kinds)  # BaseException, or a class that is mixed in
    if several or not callable(retry_on):
        raise TypeError(
            f"retry_on={retry_on!r} must be an exception class, a list or tuple of exception "
            "classes, or a function"
        )
    # LangGraph calls a class that is no Exception, like any function, and takes it for its answer.
    return (lambda exc: bool(retry_on(exc))) if isinstance(retry_on, type) else retry_on
