"""The exceptions that stop a body without failing it.

They derive from BaseException, so that ``except Exception`` in user code does not catch them;
``finally`` blocks run. Never raised to a caller of the client.
"""

from __future__ import annotations

from pyrula_core.events import Payload

__all__ = [
    "Abandoned",
    "CancelRequested",
    "ContinueAsNew",
    "PauseRequested",
    "RunStop",
    "Suspended",
]


class RunStop(BaseException):
    """Unwinds a body; what it means for the run is decided by the engine."""


class Suspended(RunStop):
    """The run waits for a timer, a signal, a child or a person, and holds no worker meanwhile."""


class PauseRequested(RunStop):
    """Somebody paused the run; it goes on from its journal when it is resumed."""


class CancelRequested(RunStop):
    """Somebody cancelled the run; it ends cancelled even if this is swallowed."""


class ContinueAsNew(RunStop):
    """The body asked to go on as a new run with a fresh journal and this input."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        super().__init__()


class Abandoned(RunStop):
    """The attempt may write nothing more: its lease, its store or its journal is gone."""
