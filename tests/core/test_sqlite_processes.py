"""Several processes on one store file, and what a kill leaves of it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pyrula_core.model import Durability
from pyrula_core.ports import Post
from pyrula_core.stores.sqlite import SqliteStore
from tests.core.store_cases import create, names, start
from tests.core.store_child import KEY, body

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# --- other processes ------------------------------------------------------------------------------


def child(act: str, path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.core.store_child", act, str(path), name, str(count)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def test_two_processes_write_one_journal(path: Path) -> None:
    with SqliteStore(path, durability=Durability.PROCESS) as store:
        create(store)
        children = [child("post", path, name, 150) for name in ("a", "b")]
        mine = [store.submit(Post(KEY, (body(f"c-{n}"),))) for n in range(150)]
        for future in mine:
            future.result(timeout=60)
        for process in children:
            process.communicate(timeout=60)
            assert process.returncode == 0
        found = names(store)[1:]
    assert len(found) == len(set(found)) == 450
    for name in "abc":
        assert [n for n in found if n.startswith(name)] == [f"{name}-{n}" for n in range(150)]


@pytest.mark.crash
def test_what_was_acknowledged_survives_every_kill(path: Path) -> None:
    with SqliteStore(path, durability=Durability.PROCESS) as store:
        start(store, ttl=0.0)
    spawner = child("spawn", path, "k", 0)
    assert spawner.stdin
    assert spawner.stdout
    acknowledged: list[str] = []
    for number in range(50):
        spawner.stdin.write("go\n")
        spawner.stdin.flush()
        pid = int(spawner.stdout.readline())
        acknowledged += [spawner.stdout.readline().strip() for _ in range(1 + 7 * number % 23)]
        os.kill(pid, signal.SIGKILL)
        acknowledged += [line.strip() for line in iter(spawner.stdout.readline, "dead\n")]
    spawner.communicate(timeout=60)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    with SqliteStore(path) as store:
        found = names(store)[2:]
    assert "" not in acknowledged
    assert len(acknowledged) >= 50
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found)), "no event is there twice"
