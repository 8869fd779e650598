"""What becomes of runs whose version no worker has."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["StrandedPolicy"]


class StrandedPolicy(StrEnum):
    """What a worker does about a queued run whose version no process has.

    ``WAIT``: nothing, a worker that has it may come. ``FAIL``: after ``stranded_timeout`` seconds
    the run ends with ``run:error``, code ``no_compatible_worker``.
    """

    WAIT = "wait"
    FAIL = "fail"
