"""Where one demo lives: a folder with its tickets, shop, ledger and journal.

Owns the names of the files and the settings that the supervisor and its workers share. A started
demo can be gone on with from its folder alone. Must never start a run or a process.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pyrula_core.model import check_run_id
from pyrula_langgraph.demo.ledger import Ledger
from pyrula_langgraph.demo.shop import Shop, build_shop
from pyrula_langgraph.demo.tickets import Ticket

__all__ = ["NAME", "Site", "fresh_site", "kept_site", "read_tickets", "reserved"]

NAME: Final = "order-desk"
"""The name under which the desk's runs are recorded."""

SETTINGS: Final = "demo.json"
REPLACED: Final = (
    *("runs.db", "runs.db-wal", "runs.db-shm"),
    *("ledger.db", "ledger.db-journal", "shop.db-journal"),
    *("executions.jsonl", "worker.log"),
)
"""What a fresh demo removes of the one before; nothing else in the folder is touched."""

tickets_max: Final = 1000


@dataclass(frozen=True, slots=True)
class Site:
    """A demo's folder and settings.

    ``prefix`` begins every run id; it is empty where the store holds nothing but this demo.
    ``foreseen`` is True when what each ticket has to cause is known beforehand.
    """

    folder: Path
    store: str
    model: str
    prefix: str
    foreseen: bool

    @property
    def log_file(self) -> Path:
        """What the workers wrote to stderr."""
        return self.folder / "worker.log"

    @property
    def diary_file(self) -> Path:
        """Every step that a worker began."""
        return self.folder / "executions.jsonl"

    def shop(self) -> Shop:
        """Open the shop's database."""
        return Shop(self.folder / "shop.db")

    def ledger(self) -> Ledger:
        """Open the ledger of effects."""
        return Ledger(self.folder / "ledger.db")

    def tickets(self) -> list[Ticket]:
        """Read the tickets that this demo works through."""
        return read_tickets(self.folder / "tickets.jsonl")

    def run_id(self, ticket: str) -> str:
        """Return the id of the run that works on a ticket; its thread has the same."""
        return f"{self.prefix}{ticket}"


def fresh_site(
    folder: Path, tickets: Sequence[Ticket], *, store: str | None, model: str, foreseen: bool
) -> Site:
    """Lay out a new demo in ``folder``, replacing the files of the one before.

    Without ``store`` the journal is a new SQLite file beside them.
    """
    for name in REPLACED:
        (folder / name).unlink(missing_ok=True)
    settings = {
        "store": store or f"sqlite:///{folder.as_posix()}/runs.db",
        "model": model,
        "prefix": f"demo-{time.time_ns() // 1_000_000:x}-" if store else "",
        "foreseen": foreseen,
    }
    lines = [json.dumps(asdict(ticket), ensure_ascii=False) for ticket in tickets]
    (folder / "tickets.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    build_shop(folder / "shop.db")
    # The store's URL may hold a password.
    (folder / SETTINGS).touch(mode=0o600)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return kept_site(folder)


def kept_site(folder: Path) -> Site:
    """Open the demo that is in ``folder``; raises FileNotFoundError where there is none."""
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    return Site(folder, **settings)


def read_tickets(path: Path) -> list[Ticket]:
    """Read a JSONL file of tickets; raises ValueError that names the line at fault."""
    tickets: dict[str, Ticket] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            ticket = Ticket(**json.loads(line))
            check_run_id(ticket.ticket)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"line {number} of {path} is not a ticket: {problem}") from None
        if ticket.ticket in tickets:
            raise ValueError(f"line {number} of {path} repeats the ticket {ticket.ticket!r}")
        tickets[ticket.ticket] = ticket
    if not 0 < len(tickets) <= tickets_max:
        raise ValueError(f"{path} holds {len(tickets)} tickets; 1 to {tickets_max} are possible")
    return list(tickets.values())


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Keep the folder to this process; raises BlockingIOError while another demo uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
