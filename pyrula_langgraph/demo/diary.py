"""A diary of every step that was begun, kept beside the journal and independent of it.

Owns the evidence that no recorded step ran again: the engine writes down what is done, the diary
what was started, and the proof compares the two. It hangs on LangChain's callbacks, so the graph
is not changed for it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from typing_extensions import override

from pyrula_core import current_run

__all__ = ["Diary", "Execution", "read_diary"]


@dataclass(frozen=True, slots=True)
class Execution:
    """A step that was begun: its idempotency key, the process, the time in seconds."""

    key: str
    pid: int
    at: float


class Diary(BaseCallbackHandler):
    """Notes each node of a durable graph when it starts, before any of its code runs."""

    raise_error = True
    run_inline = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @override
    def on_chain_start(
        self, serialized: dict[str, Any], inputs: dict[str, Any], **kwargs: Any
    ) -> None:
        metadata: Mapping[str, Any] = kwargs.get("metadata") or {}
        # What a node calls starts chains too; only the node itself has the node's name.
        if kwargs.get("name") == metadata.get("langgraph_node"):
            self.note(current_run().idempotency_key)

    def note(self, key: str) -> None:
        """Append one line in a single write: it is there even when the process dies next."""
        line = json.dumps({"key": key, "pid": os.getpid(), "at": time.time()})
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, f"\n{line}\n".encode())
        finally:
            os.close(file)


def read_diary(path: Path) -> list[Execution]:
    """Return every execution in the order in which they began."""
    if not path.exists():
        return []
    return [
        Execution(**json.loads(line))
        for line in path.read_text("utf-8").splitlines()
        # A line that a kill cut short stands for a step that was never reached.
        if line.endswith("}")
    ]
