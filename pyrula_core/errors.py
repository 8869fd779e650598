"""Every error a caller can meet, in one tree whose branches say who is at fault.

::

    PyrulaError                         .code (stable), .message, .hint (what to do next)
    ├── CallerError                     the call cannot be honoured as it was made
    │   ├── RunNotFoundError            run_not_found
    │   ├── RunFinishedError            run_finished
    │   ├── RunNotWaitingError          run_not_waiting
    │   ├── RunConflictError            run_conflict
    │   ├── RetryRefusedError           retry_cancelled | retry_not_failed | retry_stale |
    │   │                               fork_point_unknown | fork_unsupported
    │   ├── NotRegisteredError          not_registered
    │   ├── InterruptNotFoundError      interrupt_not_found
    │   ├── InterruptConflictError      interrupt_conflict
    │   ├── InvalidAnswerError          interrupt_invalid_answer
    │   ├── QueryError                  query_failed
    │   ├── UpdateRejected              update_rejected
    │   ├── UpdateError                 update_failed
    │   └── UpdateTimeout               update_timeout
    ├── CodeError                       the workflow or agent code is at fault
    │   ├── NondeterminismError         nondeterminism
    │   ├── ResultNotSerializable       result_not_serializable
    │   ├── UnknownValueType            value_type_unknown
    │   ├── PayloadTooLarge             payload_too_large
    │   ├── OutcomeUnknown              outcome_unknown
    │   ├── RecordedError               recorded_error (stands in for what cannot be rebuilt)
    │   ├── ChildWorkflowError          child_failed
    │   ├── Transient                   transient  (retried up to max_attempts)
    │   ├── Poison                      poison     (never retried)
    │   └── Fatal                       fatal      (never retried)
    ├── DurableInvocationError          the awaited run failed; .code is the run's own, or paused
    │   ├── DurableInvocationTimeout    invocation_timeout (the run goes on)
    │   ├── DurableInvocationCancelled  cancelled
    │   └── ContinuationChainError      continuation_chain
    └── StoreError                      the store or the journal in it is at fault
        ├── StoreUnavailable            store_unavailable (the write's outcome is unknown)
        ├── StoreRolledBack             store_rolled_back
        ├── LeaseLost                   lease_lost
        ├── EventRefused                event_refused
        ├── NotAPyrulaStore             not_a_pyrula_store
        ├── StoreUrlError               store_url_invalid
        └── JournalError                journal_corrupt
            └── JournalTooNew           journal_too_new
"""

from __future__ import annotations

from typing import Any

from pyrula_core.user_code import check_user_code

__all__ = [
    "CallerError",
    "ChildWorkflowError",
    "CodeError",
    "ContinuationChainError",
    "DurableInvocationCancelled",
    "DurableInvocationError",
    "DurableInvocationTimeout",
    "EventRefused",
    "Fatal",
    "InterruptConflictError",
    "InterruptNotFoundError",
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
    "ResultNotSerializable",
    "RetryRefusedError",
    "RunConflictError",
    "RunFinishedError",
    "RunNotFoundError",
    "RunNotWaitingError",
    "StoreError",
    "StoreRolledBack",
    "StoreUnavailable",
    "StoreUrlError",
    "Transient",
    "UnknownValueType",
    "UpdateError",
    "UpdateRejected",
    "UpdateTimeout",
]


class PyrulaError(Exception):
    """Root of every error this library raises on purpose.

    ``code`` is stable across releases; ``hint`` says what to do next.
    """

    code: str = "internal"

    def __init__(self, message: str = "", *, hint: str = "", code: str | None = None) -> None:
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code
        super().__init__(f"{message}. {hint}" if hint else message)


class CallerError(PyrulaError):
    """The call cannot be honoured as it was made; nothing was changed."""

    code = "caller_error"


class RunNotFoundError(CallerError):
    """No run of that name and id exists in this store and namespace."""

    code = "run_not_found"


class RunFinishedError(CallerError):
    """The run has ended, and what was asked for needs a live one."""

    code = "run_finished"


class RunNotWaitingError(CallerError):
    """The run is not waiting for what was sent to it."""

    code = "run_not_waiting"


class RunConflictError(CallerError):
    """A run with that id exists and was started with something else, or is busy elsewhere."""

    code = "run_conflict"


class RetryRefusedError(CallerError):
    """The run cannot be retried or forked; ``code`` says which rule refused it."""

    code = "retry_cancelled"


class NotRegisteredError(CallerError):
    """No workflow or agent of that name is registered in this process."""

    code = "not_registered"


class InterruptNotFoundError(CallerError):
    """The run never opened an interrupt with that id."""

    code = "interrupt_not_found"


class InterruptConflictError(CallerError):
    """The interrupt has been answered already, with another value."""

    code = "interrupt_conflict"


class InvalidAnswerError(CallerError):
    """The answer does not fit the question's ``response_schema``; the question stays open."""

    code = "interrupt_invalid_answer"


class QueryError(CallerError):
    """The query is unknown to the run, or its function raised."""

    code = "query_failed"


class UpdateRejected(CallerError):
    """The update's validator refused it; the run did not see it."""

    code = "update_rejected"


class UpdateError(CallerError):
    """The update's handler raised."""

    code = "update_failed"


class UpdateTimeout(CallerError):
    """The update was recorded but not handled in time; it will still be handled."""

    code = "update_timeout"


class CodeError(PyrulaError):
    """The workflow or agent code is at fault."""

    code = "code_error"


class NondeterminismError(CodeError):
    """The code asked for something else than its journal holds.

    ``recorded`` and ``asked`` describe both sides; ``seq`` is where the journal differs.
    """

    code = "nondeterminism"

    def __init__(
        self, message: str, *, recorded: str = "", asked: str = "", seq: int | None = None
    ) -> None:
        self.recorded = recorded
        self.asked = asked
        self.seq = seq
        hint = "Restore the code this run was started with, or give the new code a new version"
        super().__init__(message, hint=hint)


class ResultNotSerializable(CodeError):
    """A value cannot be recorded without changing it; ``path`` and ``type_path`` say which."""

    code = "result_not_serializable"

    def __init__(self, message: str, *, path: str = "$", type_path: str = "") -> None:
        self.path = path
        self.type_path = type_path
        super().__init__(message)


class UnknownValueType(CodeError):
    """A recorded value is of a class this process has not loaded, or that has changed."""

    code = "value_type_unknown"


class PayloadTooLarge(CodeError):
    """A value is larger than one record may be."""

    code = "payload_too_large"


class OutcomeUnknown(CodeError):
    """A step was started and the process died before its outcome was recorded."""

    code = "outcome_unknown"


class RecordedError(CodeError):
    """Stands in for a recorded exception that cannot be rebuilt faithfully.

    ``type_path`` is ``module:qualname`` of the original class, ``message`` its text. Where that
    class is loaded and no OSError, the instance raised is also a subclass of it, so that ``except
    TheClass`` still matches; its own attributes are absent.
    """

    code = "recorded_error"

    def __init__(self, message: str = "", *, type_path: str = "") -> None:
        Exception.__init__(self, message)
        self.message = message
        self.hint = ""
        self.type_path = type_path


class ChildWorkflowError(CodeError):
    """A child run ended without a result; ``run_id``, ``child_code`` and ``user_code`` say how."""

    code = "child_failed"

    def __init__(
        self, message: str, *, run_id: str = "", child_code: str = "", user_code: str | None = None
    ) -> None:
        self.run_id = run_id
        self.child_code = child_code
        self.user_code = user_code
        super().__init__(message)


class _Classified(CodeError):
    """A failure that states its own retry class."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        self.user_code = check_user_code(code)
        super().__init__(message)


class Transient(_Classified):
    """Raise it to be retried up to ``max_attempts``, whatever ``retryable`` says."""

    code = "transient"


class Poison(_Classified):
    """Raise it when this input can never succeed: not retried, run code ``poison``."""

    code = "poison"


class Fatal(_Classified):
    """Raise it when going on would do harm: not retried, run code ``fatal``."""

    code = "fatal"


class DurableInvocationError(PyrulaError):
    """The awaited run ended without a result.

    ``code`` is the run's error code, ``user_code`` the code its exception carried, ``run_id`` and
    ``name`` identify it, ``detail`` is the recorded detail.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        user_code: str | None = None,
        name: str = "",
        run_id: str = "",
        detail: Any = None,
        hint: str = "",
    ) -> None:
        self.user_code = user_code
        self.name = name
        self.run_id = run_id
        self.detail = detail
        super().__init__(message, hint=hint, code=code)


class DurableInvocationTimeout(DurableInvocationError):
    """The caller stopped waiting; the run goes on and can be awaited again by its run id."""

    code = "invocation_timeout"


class DurableInvocationCancelled(DurableInvocationError):
    """The awaited run was cancelled."""

    code = "cancelled"


class ContinuationChainError(DurableInvocationError):
    """A chain of ``continue_as_new`` runs could not be followed; ``detail`` holds the reason."""

    code = "continuation_chain"


class StoreError(PyrulaError):
    """The store, or the journal in it, is at fault."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store did not answer; whether a write was applied is not known."""

    code = "store_unavailable"


class StoreRolledBack(StoreError):
    """The store came back shorter than what it had acknowledged."""

    code = "store_rolled_back"


class LeaseLost(StoreError):
    """Another owner holds the run; this attempt may write nothing more."""

    code = "lease_lost"


class EventRefused(StoreError):
    """The store refused a batch for a reason that a retry would not change."""

    code = "event_refused"


class NotAPyrulaStore(StoreError):
    """The file or server holds something else; it was not touched."""

    code = "not_a_pyrula_store"


class StoreUrlError(StoreError):
    """The store URL cannot be understood."""

    code = "store_url_invalid"


class JournalError(StoreError):
    """A journal is damaged or foreign: it was reported, not skipped, and nothing was executed."""

    code = "journal_corrupt"


class JournalTooNew(JournalError):
    """A journal was written by a newer version of this library; it was left untouched."""

    code = "journal_too_new"
