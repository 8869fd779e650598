"""The exceptions that stop a graph from inside a node without failing it.

They derive from ``GraphBubbleUp`` itself, never from ``GraphInterrupt`` (LangGraph swallows that at
the root): siblings finish and are saved, nothing is retried, no error handler sees them.
"""

from __future__ import annotations

from langgraph.errors import GraphBubbleUp

__all__ = ["CancelRun", "PauseRun", "RunStopped", "StandDown"]


class RunStopped(GraphBubbleUp):
    """The run stops here; what that means is decided from what was recorded."""


class PauseRun(RunStopped):
    """Somebody paused the run."""


class CancelRun(RunStopped):
    """Somebody cancelled the run."""


class StandDown(RunStopped):
    """The run's lease, store or journal is gone: no effect may follow."""
