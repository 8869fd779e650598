"""Durable execution for LangGraph agents and plain workflows, on a store you already have.

The public names of the engine. ``docs/promises.md`` says what they promise.
"""

from __future__ import annotations

from pyrula_core.ambient import current_run, once, step
from pyrula_core.client import Client
from pyrula_core.context import Context
from pyrula_core.engine import Engine
from pyrula_core.errors import (
    CallerError,
    ChildWorkflowError,
    CodeError,
    ContinuationChainError,
    DurableInvocationCancelled,
    DurableInvocationError,
    DurableInvocationTimeout,
    EventRefused,
    Fatal,
    InterruptConflictError,
    InterruptNotFoundError,
    InvalidAnswerError,
    JournalError,
    JournalTooNew,
    LeaseLost,
    NondeterminismError,
    NotAPyrulaStore,
    NotRegisteredError,
    OutcomeUnknown,
    PayloadTooLarge,
    Poison,
    PyrulaError,
    QueryError,
    RecordedError,
    ResultNotSerializable,
    RetryRefusedError,
    RunConflictError,
    RunFinishedError,
    RunNotFoundError,
    RunNotWaitingError,
    StoreError,
    StoreRolledBack,
    StoreUnavailable,
    StoreUrlError,
    Transient,
    UnknownValueType,
    UpdateError,
    UpdateRejected,
    UpdateTimeout,
)
from pyrula_core.events import Event, EventType
from pyrula_core.inline import InlineWorkflowRunner
from pyrula_core.model import InterruptView, RunOutcome, RunStatus, RunView
from pyrula_core.registry import Registry, agent, workflow
from pyrula_core.retry import RetryPolicy
from pyrula_core.retry_config import RetryConfig
from pyrula_core.stores import open_store
from pyrula_core.worker import Worker, WorkerOptions

__all__ = [
    "CallerError",
    "ChildWorkflowError",
    "Client",
    "CodeError",
    "Context",
    "ContinuationChainError",
    "DurableInvocationCancelled",
    "DurableInvocationError",
    "DurableInvocationTimeout",
    "Engine",
    "Event",
    "EventRefused",
    "EventType",
    "Fatal",
    "InlineWorkflowRunner",
    "InterruptConflictError",
    "InterruptNotFoundError",
    "InterruptView",
    "InvalidAnswerError",
    "JournalError",
    "JournalTooNew",
    "LeaseLost",
    "NondeterminismError",
    "NotAPyrulaStore",
    "NotRegisteredError",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Poison",
    "PyrulaError",
    "QueryError",
    "RecordedError",
    "Registry",
    "ResultNotSerializable",
    "RetryConfig",
    "RetryPolicy",
    "RetryRefusedError",
    "RunConflictError",
    "RunFinishedError",
    "RunNotFoundError",
    "RunNotWaitingError",
    "RunOutcome",
    "RunStatus",
    "RunView",
    "StoreError",
    "StoreRolledBack",
    "StoreUnavailable",
    "StoreUrlError",
    "Transient",
    "UnknownValueType",
    "UpdateError",
    "UpdateRejected",
    "UpdateTimeout",
    "Worker",
    "WorkerOptions",
    "agent",
    "current_run",
    "once",
    "open_store",
    "step",
    "workflow",
]
