"""A simulated process: what a crash ends, a freeze holds up, and a clock of its own.

Owns the mark that tells which callback of a ``SimLoop`` belongs to which process. A callback takes
the mark from its context, so that everything a process has started is found when it is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

__all__ = ["PROCESS", "SimProcess"]


class SimProcess:
    """One process of a simulation.

    ``dead`` once it was killed: nothing of it runs again, not even a ``finally``. ``wall_offset``
    is by how many seconds its wall clock is wrong, ``frozen_until`` the virtual time up to which
    it stands still. ``on_cancel`` is called to have what it is doing cancelled, ``on_death`` once
    it was killed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.wall_offset = 0.0
        self.frozen_until = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_cancel: list[Callable[[], object]] = []
        self.on_death: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<SimProcess {self.name}{' dead' if self.dead else ''}>"

    def crash(self) -> None:
        """Kill the process: as with ``kill -9``, none of its code runs from now on."""
        if not self.dead:
            self.dead = True
            for tell in self.on_death:
                tell()

    def freeze(self, *, until: float) -> None:
        """Let the process stand still until a virtual time, as SIGSTOP does."""
        self.frozen_until = max(self.frozen_until, until)

    def jump(self, seconds: float) -> None:
        """Set the process's wall clock forwards or back; no time passes."""
        self.wall_offset += seconds

    def cancel(self) -> None:
        """Cancel what the process is doing, as draining does when time is up."""
        for act in self.on_cancel:
            act()


PROCESS: ContextVar[SimProcess | None] = ContextVar("pyrula_sim_process", default=None)
"""The process that the running code belongs to; None for the world around the processes."""
