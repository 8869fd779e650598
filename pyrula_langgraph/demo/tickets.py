"""The tickets of the demo and what must have happened when each is done.

Owns the reading of ``tickets.jsonl`` and ``expected.jsonl`` and how a ticket is put to the agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from pyrula_langgraph.demo.effects import EffectKind

__all__ = ["Expected", "Ticket", "load_expected", "load_tickets"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A customer's message."""

    ticket: str
    customer: str
    email: str
    subject: str
    body: str

    def text(self) -> str:
        """Return the ticket as the agent is shown it."""
        sender = f"{self.customer} <{self.email}>"
        return f"Ticket: {self.ticket}\nFrom: {sender}\nSubject: {self.subject}\n\n{self.body}"


@dataclass(frozen=True, slots=True)
class Expected:
    """An effect that must have happened exactly once."""

    kind: EffectKind
    order_id: str = ""
    amount_cents: int = 0


def load_tickets() -> list[Ticket]:
    """Read the shipped tickets."""
    return [Ticket(**json.loads(line)) for line in lines("tickets.jsonl")]


def load_expected() -> Mapping[str, tuple[Expected, ...]]:
    """Read, for each ticket, the effects that are right for it."""
    rows = [json.loads(line) for line in lines("expected.jsonl")]
    return {row["ticket"]: tuple(expected(**effect) for effect in row["effects"]) for row in rows}


def expected(kind: str, order_id: str = "", amount_cents: int = 0) -> Expected:
    """Build one expectation from its JSON."""
    return Expected(EffectKind(kind), order_id, amount_cents)


def lines(name: str) -> list[str]:
    """Read the lines of a shipped file."""
    return resources.files(__package__).joinpath(name).read_text("utf-8").splitlines()
