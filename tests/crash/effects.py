"""What really happened: a file to which every step of a crash test adds a line when it executes.

The file outlives every process that wrote to it, so it tells what no journal can: how often a body
ran, and in which process.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pyrula_core import current_run


@dataclass(frozen=True, slots=True)
class Effect:
    """One execution of a step: the key it ran under and the process it ran in."""

    key: str
    pid: int
    note: str = ""


class EffectsLog:
    """An append-only file; a line is on the disk before the step that wrote it goes on."""

    def __init__(self) -> None:
        self._file: int | None = None

    def open(self, path: Path) -> None:
        """Write to ``path`` from now on; called in the process that is to die."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def happened(self, note: str = "") -> None:
        """Add a line for the durable step that is running in the calling task or thread."""
        run = current_run()
        self.write(run.idempotency_key.split("/", 2)[2], note)

    def write(self, key: str, note: str = "") -> None:
        """Add a line for ``key``, in one write, and sync it."""
        assert self._file is not None, "opened first"
        line = json.dumps({"key": key, "pid": os.getpid(), "note": note}) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)


def read_effects(path: Path) -> list[Effect]:
    """Return every execution so far, in order."""
    if not path.exists():
        return []
    return [Effect(**json.loads(line)) for line in path.read_text().splitlines()]
