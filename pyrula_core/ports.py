"""What the engine asks of the outside world: a store, a clock, a source of randomness.

A store takes *operations*, plain values, and answers each with a result value. Its laws are in
``docs/store-contract.md`` and are checked by ``pyrula_core.testing.conformance``; in short:

* L1 an ``Append`` is all or nothing: events, records, status and indexes in one transaction.
* L2 the same events at the same place again are ``Appended`` again, so an unknown outcome can be
  resolved by repeating.
* L3 durable before it is answered. L4 reads are gap-free, ordered and never shrink.
* L5 epochs strictly rise per run, across restarts. L6 leases run on the store's clock.
* L7 a terminal status freezes the journal. L8 namespaces are isolated.
* L9 the only exceptions are StoreUnavailable (outcome unknown), JournalError, EventRefused (a batch
  that no repetition would make acceptable) and CallerError (a list cursor that is not one).
* L10 a claim has one winner, and a claimed run whose claimer dies is claimable again.
* L11 ``subscribe`` is a hint: correctness never depends on it.

Stores never look inside an event. What they must know of one comes beside it, in the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar, runtime_checkable

from pyrula_core.model import Controls, Durability, RunKey, RunKind, RunRow, RunStatus
from pyrula_core.operations import (
    Appended,
    Fenced,
    Frame,
    ListPartitions,
    Op,
    ReadRecords,
    Record,
    RecordRange,
    Records,
    ScanRecords,
    WriteRecords,
)
from pyrula_core.surroundings import Clock, Entropy

__all__ = [
    "Append",
    "AppendResult",
    "Appended",
    "Claim",
    "ClaimResult",
    "Claimed",
    "Clock",
    "Conflict",
    "Create",
    "CreateResult",
    "Created",
    "DeleteRun",
    "Duplicate",
    "Ended",
    "Entropy",
    "Exists",
    "Fenced",
    "FindIdempotent",
    "Frame",
    "Head",
    "ListPartitions",
    "ListRuns",
    "Missing",
    "NotClaimable",
    "Now",
    "Occupied",
    "Op",
    "Patch",
    "Post",
    "PostResult",
    "Posted",
    "ReadEvents",
    "ReadRecords",
    "Record",
    "RecordRange",
    "Records",
    "Refused",
    "Renew",
    "Renewed",
    "RunPage",
    "ScanRecords",
    "Store",
    "WriteRecords",
]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Create(Op["CreateResult"]):
    """Create a queued run with its first events, or answer the run that is there already.

    ``idempotency_key`` is unique per run name. ``claim_owner`` with ``claim_ttl`` (seconds)
    claims the new run at once, as its first ``Claim`` would, appending ``claim_event``. With
    ``exclusive`` nothing is created while another run of the partition has not ended.
    """

    key: RunKey
    kind: RunKind
    version: str
    partition: str
    events: tuple[bytes, ...]
    idempotency_key: str | None = None
    parent: str | None = None
    claim_owner: str | None = None
    claim_ttl: float = 0.0
    claim_event: bytes = b""
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """The run was created."""

    row: RunRow


@dataclass(frozen=True, slots=True)
class Exists:
    """A run with that key, or that name and idempotency key, was there; nothing changed."""

    row: RunRow


@dataclass(frozen=True, slots=True)
class Occupied:
    """An open run, ``row``, has the partition to itself; nothing changed."""

    row: RunRow


CreateResult = Created | Exists | Occupied


@dataclass(frozen=True, slots=True)
class Patch:
    """What an append changes of its run's row.

    ``status`` None leaves the status; ``release`` gives the lease back; ``wake_at`` (seconds on
    the store's clock) is when a waiting run becomes claimable by itself.
    """

    status: RunStatus | None = None
    release: bool = False
    wake_at: float | None = None
    error_code: str | None = None
    user_code: str | None = None


@dataclass(frozen=True, slots=True)
class Append(Op["AppendResult"]):
    """Add ``events`` (bodies) after ``expected_seq`` under the lease ``epoch``."""

    key: RunKey
    epoch: int
    expected_seq: int
    events: tuple[bytes, ...]
    patch: Patch = Patch()
    records: Records = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """The journal has moved on: ``tail`` holds every event after ``expected_seq``."""

    seq: int
    tail: tuple[Frame, ...]
    controls: Controls


@dataclass(frozen=True, slots=True)
class Refused:
    """The store will never take this batch; ``ended`` says that the run is over."""

    reason: str
    ended: bool = False


AppendResult = Appended | Conflict | Fenced | Refused


@dataclass(frozen=True, slots=True)
class Post(Op["PostResult"]):
    """Add events from outside at the end of a live run's journal, whoever owns it.

    ``wake`` makes a waiting or interrupted run claimable; ``pause`` and ``cancel`` set or clear
    the controls (None leaves them). ``guard`` is unique per run: a second post with the same guard
    changes nothing and answers ``Duplicate``.
    """

    key: RunKey
    events: tuple[bytes, ...]
    wake: bool = False
    pause: bool | None = None
    cancel: bool | None = None
    guard: str | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """The events are durable; ``seq`` is the last one's number."""

    seq: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A post with the same guard came before; ``seq`` is its last event's number."""

    seq: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over; nothing was added."""

    row: RunRow


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such run."""


PostResult = Posted | Duplicate | Ended | Missing


@dataclass(frozen=True, slots=True)
class Claim(Op["ClaimResult"]):
    """Take the lease of one claimable run for ``ttl`` seconds and append ``claimed``.

    With ``key``, that run; else the claimable run that has waited longest among ``serves``, pairs
    of name and version (an empty version serves every one). Claimable: queued and not paused (or
    cancelled), waiting with ``wake_at`` reached, running with its lease run out. In the last case
    ``orphaned`` is appended before ``claimed``, since the former owner is gone. ``dead_owner``,
    with ``key``, names an owner that the caller knows to be dead: its lease counts as run out.
    """

    owner: str
    ttl: float
    claimed: bytes
    orphaned: bytes
    key: RunKey | None = None
    serves: frozenset[tuple[str, str]] = frozenset()
    dead_owner: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """The lease is the caller's; ``row.epoch`` fences every write it makes."""

    row: RunRow


@dataclass(frozen=True, slots=True)
class NotClaimable:
    """Nothing to claim; ``row`` is the run that was asked for, where there is one."""

    row: RunRow | None = None


ClaimResult = Claimed | NotClaimable


@dataclass(frozen=True, slots=True)
class Renew(Op["Renewed | Fenced"]):
    """Extend a lease that is still held, to ``ttl`` seconds from now on the store's clock."""

    key: RunKey
    epoch: int
    owner: str
    ttl: float


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lease holds; the current controls come along."""

    controls: Controls


@dataclass(frozen=True, slots=True)
class Head(Op["RunRow | None"]):
    """Answer a run's row."""

    key: RunKey


@dataclass(frozen=True, slots=True)
class FindIdempotent(Op["RunRow | None"]):
    """Answer the row of the run with that name and idempotency key."""

    name: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class ReadEvents(Op["tuple[Frame, ...]"]):
    """Answer the stored events after ``after``, in order, ``limit`` at most (None: all)."""

    key: RunKey
    after: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ListRuns(Op["RunPage"]):
    """Answer run rows, newest first; ``statuses`` are shown statuses (paused included).

    ``cursor`` is what the page before answered; ``limit`` is at most 1,000.
    """

    name: str | None = None
    statuses: frozenset[RunStatus] = frozenset()
    error_code: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    partition: str | None = None
    parent: str | None = None
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of run rows and the cursor of the next one, None at the end."""

    rows: tuple[RunRow, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteRun(Op[bool]):
    """Delete an ended run with its journal and guards; False when it is open or missing."""

    key: RunKey


@dataclass(frozen=True, slots=True)
class Now(Op[float]):
    """Answer the store's clock, in seconds since the epoch."""


@runtime_checkable
class Store(Protocol):
    """Keeps journals, leases and records under the laws above."""

    @property
    def url(self) -> str:
        """The URL that opens this store again, without secrets."""
        ...

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives, read from the store itself."""
        ...

    def submit(self, op: Op[R]) -> Future[R]:
        """Start an operation; the future may be waited for from any thread or event loop."""
        ...

    async def call(self, op: Op[R]) -> R:
        """Do an operation and return its answer."""
        ...

    def subscribe(self, key: RunKey | None, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` (from any thread) when that run, or any run, may have changed.

        Returns a function that ends the subscription.
        """
        ...

    def close(self) -> None:
        """Finish what was submitted and release every resource; idempotent."""
        ...

    def __enter__(self) -> Self:
        """Return this store, to be closed at the end of the block."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close this store."""
        ...
