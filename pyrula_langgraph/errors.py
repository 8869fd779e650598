"""The adapter's own errors; the tree they belong to is ``pyrula_core.errors``."""

from __future__ import annotations

from pyrula_core import CallerError, CodeError

__all__ = ["GraphChanged", "GraphUnsupported", "InterruptSwallowed", "ThreadBusy"]


class InterruptSwallowed(CodeError):
    """A node asked a person, caught the interrupt itself and went on without the answer."""

    code = "interrupt_swallowed"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"node {key!r} called interrupt() and swallowed it, so that it went on unanswered",
            hint="Let GraphInterrupt through: catch narrower exceptions around interrupt()",
        )


class ThreadBusy(CallerError):
    """The thread has a run that has not ended."""

    code = "thread_busy"


class GraphChanged(CallerError):
    """The graph no longer has what a run needs to go on; the run stays as it is."""

    code = "graph_changed"


class GraphUnsupported(CallerError):
    """The graph cannot be made durable as it is; the message says what to change."""

    code = "graph_unsupported"
