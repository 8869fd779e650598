"""The effects ledger: a file of its own that remembers what reached the outside world.

Owns the difference between an attempt and an effect. It is written with its own connection, never
in the transaction of a journal, exactly as a payment provider would be: a process may die after the
money has moved and before anything else knows. Must never decide what should happen.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path

from pyrula_langgraph.demo.effects import Effect, EffectKind, Entry

__all__ = ["Ledger"]

lock_wait_seconds_max = 30.0

SETTLE = """
    INSERT OR IGNORE INTO settled (kind, key, ticket, order_id, amount_cents)
    VALUES (:kind, :key, :ticket, :order_id, :amount_cents)
"""
NOTE = """
    INSERT INTO attempts (ticket, kind, key, order_id, amount_cents, effective, pid, at)
    VALUES (:ticket, :kind, :key, :order_id, :amount_cents, :effective, :pid, :at)
"""
READ = """
    SELECT ticket, kind, key, order_id, amount_cents, effective, pid, at FROM attempts ORDER BY seq
"""


class Ledger:
    """A ledger in one SQLite file; safe to use from several threads and processes at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        schema = resources.files(__package__).joinpath("ledger.sql").read_text("utf-8")
        with self._connection() as connection:
            connection.executescript(schema)

    def record(self, effect: Effect) -> bool:
        """Attempt ``effect``; True when it took effect, False when its key was known already.

        Durable when it returns. The attempt itself is noted in both cases.
        """
        row = {
            "ticket": effect.ticket,
            "kind": effect.kind.value,
            "key": effect.key,
            "order_id": effect.order_id,
            "amount_cents": effect.amount_cents,
            "pid": os.getpid(),
            "at": time.time(),
        }
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            effective = connection.execute(SETTLE, row).rowcount == 1
            connection.execute(NOTE, row | {"effective": int(effective)})
            connection.execute("COMMIT")
        return effective

    def entries(self) -> list[Entry]:
        """Return every attempt in the order of arrival."""
        with self._connection() as connection:
            rows = connection.execute(READ).fetchall()
        return [
            Entry(
                Effect(ticket, EffectKind(kind), key, order_id, amount_cents),
                effective=bool(effective),
                pid=pid,
                at=at,
            )
            for ticket, kind, key, order_id, amount_cents, effective, pid, at in rows
        ]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # One connection per call: tools run in threads, and a killed process leaves nothing open.
        connection = sqlite3.connect(self.path, timeout=lock_wait_seconds_max, isolation_level=None)
        with closing(connection):
            yield connection
