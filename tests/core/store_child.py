"""A process of its own that writes to a store file; the tests of the SQLite store start it.

``python -m tests.core.store_child post|append PATH NAME COUNT``: each line it prints names an event
that was acknowledged before it was printed.
"""

from __future__ import annotations

import sys

from pyrula_core.codec import encode
from pyrula_core.events import Event, EventType
from pyrula_core.model import Durability, RunKey
from pyrula_core.ports import Append, Appended, Claim, Claimed, Post, Posted
from pyrula_core.stores.sqlite import SqliteStore

KEY = RunKey("wf", "r")


def body(name: str) -> bytes:
    return encode(Event(EventType.SIGNAL_RECEIVED, {"name": name}))


def post(store: SqliteStore, name: str, count: int) -> None:
    """Add events from outside, as any number of processes may."""
    for number in range(count):
        answer = store.submit(Post(KEY, (body(f"{name}-{number}"),))).result(timeout=60)
        assert isinstance(answer, Posted), answer
        print(f"{name}-{number}", flush=True)


def append(store: SqliteStore, name: str, count: int) -> None:
    """Claim the run, whoever had it, and add events as its owner."""
    claim = Claim(name, 0.0, body(f"{name}-claim"), body(f"{name}-orphan"), KEY)
    answer = store.submit(claim).result(timeout=60)
    assert isinstance(answer, Claimed), answer
    seq = answer.row.seq
    for number in range(count):
        op = Append(KEY, answer.row.epoch, seq, (body(f"{name}-{number}"),))
        appended = store.submit(op).result(timeout=60)
        assert isinstance(appended, Appended), appended
        seq = appended.seq
        print(f"{name}-{number}", flush=True)


def main() -> None:
    act, path, name, count = sys.argv[1:]
    store = SqliteStore(path, durability=Durability.PROCESS)
    {"post": post, "append": append}[act](store, name, int(count))
    store.close()


if __name__ == "__main__":
    main()
