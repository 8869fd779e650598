"""A worker as its own process: SIGTERM drains it, SIGKILL costs nothing that was recorded."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyrula_core import Client
from pyrula_core.model import RunKey
from tests.crash import worker_process

KEY = RunKey("slow", "r")


def start(url: str, repository: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    return subprocess.Popen([sys.executable, worker_process.__file__, url], env=environment)


async def reached(folder: Path, lines: int) -> list[str]:
    """Wait until the workflow has left that many lines."""
    effects = folder / "effects"
    async with asyncio.timeout(60):
        while not effects.exists() or len(effects.read_text().split()) < lines:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return effects.read_text().split()


@pytest.mark.crash
async def test_sigterm_lets_the_step_end_and_gives_the_run_back(
    tmp_path: Path, repository: Path
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    client = Client(url)
    await client.start("slow", str(tmp_path), run_id="r")
    worker = start(url, repository)
    await reached(tmp_path, 1)
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 30) == 0
    row = await client.head(KEY)
    assert (row.shown_status, row.owner) == ("queued", None)
    steps = [event for event in await client.history("slow", "r") if event.type == "step:done"]
    assert len(steps) == len((tmp_path / "effects").read_text().split())


@pytest.mark.crash
async def test_a_killed_worker_is_followed_at_once_though_its_lease_is_long(
    tmp_path: Path, repository: Path
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    client = Client(url)
    await client.start("slow", str(tmp_path), run_id="r")
    first = start(url, repository)
    await reached(tmp_path, 2)
    first.send_signal(signal.SIGKILL)
    await asyncio.to_thread(first.wait)
    second = start(url, repository)
    outcome = await client.result("slow", "r", drive=False, timeout=50)
    second.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(second.wait, 30) == 0
    assert outcome.output == "done"
    assert (tmp_path / "effects").read_text().split() in (
        ["one", "two", "two", "three"],
        ["one", "two", "three"],
    )
