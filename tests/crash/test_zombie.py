"""A process that slept past its lease writes nothing more, whatever it was doing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.effects import Effect, read_effects
from tests.crash.evidence import Evidence, examine
from tests.crash.zombie_worker import RUN

pytestmark = [pytest.mark.crash, pytest.mark.slow]

worker_seconds_max = 60
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker that has ended: its process and the output it was given."""

    pid: int
    output: dict[str, int]


@dataclass(frozen=True, slots=True)
class Takeover:
    """What the heir did while the zombie slept, and what the zombie changed when it woke up."""

    zombie: Ended
    heir: Ended
    before: Evidence
    after: Evidence
    effects: list[Effect]

    def ran(self, step: str) -> set[int]:
        """Return the processes in which a step was executed."""
        return {effect.pid for effect in self.effects if step in effect.key}


def begin(kind: str, stops: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.zombie_worker", kind, stops, str(folder)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(worker: subprocess.Popen[str]) -> Ended:
    said, complained = worker.communicate(timeout=worker_seconds_max)
    assert worker.returncode == 0, complained
    return Ended(worker.pid, json.loads(said.splitlines()[-1]))


def take_over(kind: str, stops: str, folder: Path) -> Takeover:
    """Let one worker freeze, another one finish its run, and the first one wake up."""
    zombie = begin(kind, stops, folder)
    try:
        _, status = os.waitpid(zombie.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), zombie.communicate()
        heir = end(begin(kind, "never", folder))
        before = examine(folder / "runs.db", RUN)
        os.kill(zombie.pid, signal.SIGCONT)
        woken = end(zombie)
    finally:
        if zombie.poll() is None:
            zombie.kill()
            zombie.communicate()
    after = examine(folder / "runs.db", RUN)
    return Takeover(woken, heir, before, after, read_effects(folder / "effects"))


def assert_nothing_added(seen: Takeover) -> None:
    assert seen.before.status == "complete"
    assert seen.after == seen.before, "the zombie wrote to a run that it had lost"
    assert seen.zombie.output == seen.heir.output, "it tells what the journal holds"
    twice = [key for key, count in Counter(seen.after.recorded).items() if count > 1]
    assert not twice, "a step was recorded twice"
    assert seen.after.keys_of("run:requeued") == [""], "the lease ran out exactly once"


@pytest.mark.parametrize("kind", ["workflow", "graph"])
def test_a_step_that_slept_past_its_lease_has_its_late_effect_and_leaves_no_result(
    kind: str, tmp_path: Path
) -> None:
    seen = take_over(kind, "in-step", tmp_path)
    assert_nothing_added(seen)
    assert [effect.pid for effect in seen.effects if effect.note == "late"] == [seen.zombie.pid]
    assert seen.ran("slow") == {seen.zombie.pid, seen.heir.pid}
    assert seen.ran("last") == {seen.heir.pid}, "the zombie starts nothing new"
    assert seen.heir.output == {
        "first": seen.zombie.pid,
        "slow": seen.heir.pid,
        "last": seen.heir.pid,
    }


@pytest.mark.parametrize("kind", ["workflow", "graph"])
def test_a_write_that_slept_past_its_lease_is_refused_by_the_store(
    kind: str, tmp_path: Path
) -> None:
    seen = take_over(kind, "before-write", tmp_path)
    assert_nothing_added(seen)
    assert seen.ran("slow") == {seen.zombie.pid, seen.heir.pid}
    assert seen.ran("last") == {seen.heir.pid}
    assert seen.heir.output["slow"] == seen.heir.pid


@pytest.mark.parametrize("kind", ["workflow", "graph"])
def test_a_result_that_was_durable_before_the_sleep_is_the_one_that_counts(
    kind: str, tmp_path: Path
) -> None:
    seen = take_over(kind, "after-write", tmp_path)
    assert_nothing_added(seen)
    assert seen.ran("slow") == {seen.zombie.pid}, "what was recorded does not run again"
    assert seen.ran("last") == {seen.heir.pid}, "the zombie starts nothing new"
    assert seen.heir.output["slow"] == seen.zombie.pid
