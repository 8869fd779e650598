"""A process of its own that writes to a store file; the tests of the SQLite store start it.

``python -m tests.core.store_child post PATH NAME COUNT`` posts events; with ``spawn`` it forks, for
every line it reads, a process that appends events until it is killed. Each line names an event that
was acknowledged before it was printed.
"""

from __future__ import annotations

import itertools
import os
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


def append_for_ever(path: str, name: str) -> None:
    """Claim the run, whoever had it, and add events as its owner."""
    store = SqliteStore(path, durability=Durability.PROCESS)
    claim = Claim(name, 0.0, body(f"{name}-claim"), body(f"{name}-orphan"), KEY)
    answer = store.submit(claim).result(timeout=60)
    assert isinstance(answer, Claimed), answer
    seq = answer.row.seq
    for number in itertools.count():
        op = Append(KEY, answer.row.epoch, seq, (body(f"{name}-{number}"),))
        appended = store.submit(op).result(timeout=60)
        assert isinstance(appended, Appended), appended
        seq = appended.seq
        print(f"{name}-{number}", flush=True)


def spawn(path: str, name: str) -> None:
    """Fork a process for every line; a fork costs less than an interpreter that starts."""
    for number, _ in enumerate(sys.stdin):
        pid = os.fork()
        if pid == 0:
            print(os.getpid(), flush=True)
            append_for_ever(path, f"{name}{number}")
        os.waitpid(pid, 0)
        print("dead", flush=True)


def main() -> None:
    act, path, name, count = sys.argv[1:]
    if act == "spawn":
        spawn(path, name)
    else:
        with SqliteStore(path, durability=Durability.PROCESS) as store:
            post(store, name, int(count))


if __name__ == "__main__":
    main()
