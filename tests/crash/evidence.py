"""What a store file says of one run, read with fresh eyes between two lives of a process."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import apsw

from pyrula_core.adapter import read_history
from pyrula_core.events import Event
from pyrula_core.model import RunKey
from pyrula_core.ports import Head
from pyrula_core.stores import open_store


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a journal, as far as the checks look: ``key`` is a step's or a question's."""

    seq: int
    type: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run as its store file holds it; ``status`` is empty where there is no such run."""

    entries: list[Entry] = field(default_factory=list)
    status: str = ""
    seq: int = 0
    owner: str | None = None
    integrity: str = "ok"

    def keys_of(self, *types: str) -> list[str]:
        """Return the keys of the events of these types, in order."""
        return [entry.key for entry in self.entries if entry.type in types]

    @property
    def recorded(self) -> list[str]:
        """Return the keys of every step that has an outcome, in the order they were recorded."""
        return self.keys_of("step:done", "step:error")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Evidence:
        entries = [Entry(**entry) for entry in fields.pop("entries")]
        return cls(entries, **fields)


def examine(path: Path, run: RunKey) -> Evidence:
    """Read a store file through a store of its own; a file that is not there is empty."""
    if not path.exists():
        return Evidence()
    with open_store(f"sqlite:///{path}") as store:
        row = store.submit(Head(run)).result()
        history = asyncio.run(read_history(store, run))
    entries = [
        Entry(event.seq, sort_of(event), str(event.data.get("key") or event.data.get("id") or ""))
        for event in history
    ]
    found = Evidence(entries, integrity=check_file(path))
    if row is None:
        return found
    return Evidence(entries, str(row.status), row.seq, row.owner, found.integrity)


def sort_of(event: Event) -> str:
    """Return an event's type; a step that its body gave up has no outcome of its own."""
    return "step:given_up" if event.data.get("given_up") else str(event.type)


def check_file(path: Path) -> str:
    """Return SQLite's own word on the file: ``ok``, or what is wrong with it."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return "; ".join(str(row[0]) for row in db.execute("PRAGMA integrity_check"))
    finally:
        db.close()
