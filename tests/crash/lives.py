"""The lives of a process: forked from one that has everything imported, killed, forked again.

The parent must have no threads and no open store: SQLite's locks and a thread's locks do not
survive a fork.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyrula_core.model import RunKey
from pyrula_core.ports import Store
from pyrula_core.stores import open_store
from tests.crash.effects import EffectsLog
from tests.crash.evidence import Evidence, examine
from tests.crash.killing_store import Kill, KillingStore

life_seconds_max = 30.0
lives_max = 60


class Story(Protocol):
    """A run that is told again and again: what a process does from its first line to its end.

    ``unsure`` names the calls that are made at most once: after a crash nobody knows whether they
    were, and they are not made again.
    """

    name: str
    run: RunKey
    effects: EffectsLog
    unsure: frozenset[str]

    async def live(self, store: Store) -> Any:
        """Start the run or go on with it, answer what it asks, and return what came of it."""
        ...

    def expected(self, journal: Evidence, reference: Any) -> Any:
        """Return what must come of a run with this journal, given an undisturbed one's outcome."""
        ...


@dataclass(frozen=True, slots=True)
class Life:
    """One process: what it found in the store, and, unless it was killed, what it left there."""

    pid: int
    signal: int
    code: int
    found: Evidence
    left: Evidence | None = None
    outcome: Any = None
    writes: int = 0
    said: str = ""

    @property
    def killed(self) -> bool:
        """True when the process died at the write that was chosen."""
        return self.signal == signal.SIGKILL


def lives_of(story: Story, folder: Path, kills: Iterator[Kill | None]) -> list[Life]:
    """Let process after process tell a story in ``folder`` until one of them is not killed."""
    assert threading.active_count() == 1, "a thread would be lost in the fork"
    lives: list[Life] = []
    for number in range(1, lives_max + 1):
        lives.append(live_once(story, folder, number, next(kills, None)))
        if not lives[-1].killed:
            return lives
    return lives


def live_once(story: Story, folder: Path, number: int, kill: Kill | None) -> Life:
    """Fork a process that tells the story, wait for its end, and return what it wrote down."""
    said, report = folder / f"said-{number}", folder / f"life-{number}"
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        be_born(story, folder, said, report, kill)
    _, status = os.waitpid(pid, 0)
    fields = json.loads(report.read_text())
    left = fields.get("left")
    return Life(
        pid=pid,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        found=Evidence.from_json(fields["found"]),
        left=None if left is None else Evidence.from_json(left),
        outcome=fields.get("outcome"),
        writes=fields.get("writes", 0),
        said=said.read_text(),
    )


def be_born(story: Story, folder: Path, said: Path, report: Path, kill: Kill | None) -> None:
    """Live in the forked process, and end it whatever happens."""
    code = 1
    try:
        log = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.dump_traceback_later(life_seconds_max, exit=True)
        tell(story, folder, report, kill)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def tell(story: Story, folder: Path, report: Path, kill: Kill | None) -> None:
    """Look at the store, live, look again; each look is written down at once."""
    path = folder / "runs.db"
    fields: dict[str, Any] = {"found": examine(path, story.run).to_json()}
    report.write_text(json.dumps(fields))
    story.effects.open(folder / "effects")
    store = KillingStore(open_store(f"sqlite:///{path}"), kill)
    fields["outcome"] = asyncio.run(story.live(store))
    store.close()
    fields["writes"] = store.writes
    fields["left"] = examine(path, story.run).to_json()
    report.write_text(json.dumps(fields))
