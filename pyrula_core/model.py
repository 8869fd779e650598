"""The nouns that every other module shares: run keys, statuses, rows, views and outcomes.

Owns no behaviour beyond reading its own fields. Must never do IO, read a clock or import a store.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "Capture",
    "Controls",
    "Durability",
    "InterruptView",
    "RunErrorView",
    "RunKey",
    "RunKind",
    "RunOutcome",
    "RunRow",
    "RunStatus",
    "RunView",
    "check_run_id",
    "check_run_name",
    "derived_run_id",
]

run_id_chars_max = 200
RUN_ID_PATTERN = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")


class RunStatus(StrEnum):
    """Where a run stands, as a person is told it.

    ``paused`` is never stored: a run with its pause flag set and no owner is shown as paused.
    """

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    PAUSED = "paused"
    COMPLETE = "complete"
    ERROR = "error"
    CANCELLED = "cancelled"
    CONTINUED = "continued"

    @property
    def ended(self) -> bool:
        """True when nothing can follow: the journal is frozen."""
        return self in ENDED


ENDED = frozenset({RunStatus.COMPLETE, RunStatus.ERROR, RunStatus.CANCELLED, RunStatus.CONTINUED})


class RunKind(StrEnum):
    """What kind of code a run executes; it decides the default error code."""

    WORKFLOW = "workflow"
    AGENT = "agent"


class Durability(StrEnum):
    """What an acknowledged write survives (DESIGN: durability levels).

    ``memory``: nothing; ``process``: a kill -9 of us; ``machine``: loss of power.
    """

    MEMORY = "memory"
    PROCESS = "process"
    MACHINE = "machine"


class Capture(StrEnum):
    """How much of users' values errors, logs and pages may show."""

    NONE = "none"
    SHAPE = "shape"
    REDACTED = "redacted"
    FULL = "full"


def check_run_id(run_id: str) -> str:
    """Return ``run_id``, or raise ValueError when it is not 1 to 200 of ``A-Za-z0-9_.:-``."""
    if type(run_id) is not str or not RUN_ID_PATTERN.fullmatch(run_id):
        raise ValueError(f"run_id={run_id!r} is not legal: use 1 to 200 of letters, digits, '_.:-'")
    return run_id


def derived_run_id(run_id: str, suffix: str) -> str:
    """Return the id of a run that belongs to another one; a long one is cut and told apart."""
    if len(run_id) + len(suffix) <= run_id_chars_max:
        return run_id + suffix
    digest = hashlib.blake2b(run_id.encode(), digest_size=6).hexdigest()
    return f"{run_id[:150]}.{digest}{suffix}"


def check_run_name(name: str) -> str:
    """Return ``name``, or raise ValueError when it is not 1 to 200 of ``A-Za-z0-9_.:-``."""
    if type(name) is not str or not RUN_ID_PATTERN.fullmatch(name):
        raise ValueError(f"name={name!r} is not legal: use 1 to 200 of letters, digits, '_.:-'")
    return name


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """Identifies one run inside a store's namespace."""

    name: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.name}/{self.run_id}"


@dataclass(frozen=True, slots=True)
class Controls:
    """What was asked of a run from outside; every append returns the current ones."""

    pause: bool = False
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run's row in a store: what can be told without reading its journal.

    Times are seconds since the epoch on the store's clock; ``seq`` is the last event's number
    (the first event is 1); ``epoch`` rises with every claim.
    """

    key: RunKey
    kind: RunKind
    version: str
    partition: str
    status: RunStatus
    seq: int
    epoch: int
    created_at: float
    updated_at: float
    controls: Controls = Controls()
    owner: str | None = None
    lease_until: float = 0.0
    wake_at: float | None = None
    idempotency_key: str | None = None
    parent: str | None = None
    error_code: str | None = None
    user_code: str | None = None

    @property
    def shown_status(self) -> RunStatus:
        """The status a person is told."""
        idle = self.status in (RunStatus.QUEUED, RunStatus.WAITING, RunStatus.INTERRUPTED)
        return RunStatus.PAUSED if idle and self.controls.pause else self.status


@dataclass(frozen=True, slots=True)
class InterruptView:
    """A question a run has put to a person.

    ``value`` is what was asked, ``node`` the step that asks (None for a plain workflow),
    ``response_schema`` a JSON schema of the answer where one was given.
    """

    id: str
    value: Any = None
    node: str | None = None
    response_schema: dict[str, Any] | None = None
    opened_at: float = 0.0


@dataclass(frozen=True, slots=True)
class RunErrorView:
    """Why a run failed, as recorded."""

    code: str
    message: str = ""
    error_type: str = ""
    user_code: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """What ``describe`` tells of a run."""

    name: str
    run_id: str
    kind: RunKind
    version: str
    status: RunStatus
    created_at: float
    updated_at: float
    attempts: int = 0
    steps: int = 0
    seq: int = 0
    thread: str | None = None
    error: RunErrorView | None = None
    interrupts: tuple[InterruptView, ...] = ()
    parent: str | None = None
    continued_to: str | None = None
    owner: str | None = None
    controls: Controls = Controls()


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Where a driven or awaited run has come to.

    ``status`` is ``complete``, ``interrupted``, ``paused`` or ``waiting`` (for a timer, a signal
    or a child); ``output`` is set when complete, ``interrupts`` when interrupted.
    """

    status: str
    run_id: str
    output: Any = None
    interrupts: tuple[InterruptView, ...] = ()
