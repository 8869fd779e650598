"""Kills a story at every one of its journal writes in turn, and judges every case.

A program of its own, so that it can fork with everything imported and no thread running::

    python -m tests.crash.kill_points workflow after --at 17

tells one case, ``--every 6`` the one in which every process dies at its sixth write; without either
it goes through all writes and then that one. The last line it prints is a summary in JSON.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyrula_core.stores import open_store
from tests.crash.effects import read_effects
from tests.crash.killing_store import Kill
from tests.crash.lives import Life, Story, lives_of
from tests.crash.verdict import Undisturbed, complaints

STORIES = ("graph", "workflow")

# Where the system keeps files in memory. A killed process leaves them as it would on a disk, and a
# sync costs nothing there.
IN_MEMORY = Path("/dev/shm")

# At which of its writes every process dies in the last case: late enough to get anywhere.
every_write = 6


def story_named(name: str) -> Story:
    """Return a story; only the graph's needs LangChain, which is long to import."""
    if name == "graph":
        from tests.crash.graph_story import GraphStory

        return GraphStory()
    from tests.crash.workflow_story import WorkflowStory

    return WorkflowStory()


def undisturbed(story: Story, folder: Path) -> Undisturbed:
    """Tell a story that nobody kills, and return what the others are measured by."""
    (life,) = lives_of(story, folder, iter(()))
    if life.left is None:
        raise SystemExit(f"the undisturbed {story.name} story failed:\n{life.said}")
    effects = read_effects(folder / "effects")
    reference = Undisturbed(life.outcome, life.left, effects, life.writes)
    wrong = list(complaints(story, [life], effects, reference))
    if wrong:
        raise SystemExit(f"the undisturbed {story.name} story is wrong:\n" + "\n".join(wrong))
    return reference


def told(
    story: Story, folder: Path, kills: Iterator[Kill | None], reference: Undisturbed
) -> tuple[list[Life], list[str]]:
    """Tell a story that is killed; returns its lives and what is wrong with them."""
    folder.mkdir()
    lives = lives_of(story, folder, kills)
    wrong = list(complaints(story, lives, read_effects(folder / "effects"), reference))
    if not wrong:
        shutil.rmtree(folder)
    return lives, wrong


def every_kill(
    story: Story, folder: Path, reference: Undisturbed, mode: Any, numbers: Iterator[int]
) -> dict[str, Any]:
    """Kill at write after write until the story ends before its number has come."""
    killed, failed = 0, {}
    for number in numbers:
        kills = iter([Kill(number, mode)])
        lives, wrong = told(story, folder / f"{mode}-{number}", kills, reference)
        if wrong:
            failed[f"{story.name} {mode} --at {number}"] = wrong
        if not any(life.killed for life in lives):
            break
        killed += 1
    return {"killed": killed, "failed": failed}


def again_and_again(
    story: Story, folder: Path, reference: Undisturbed, mode: Any, number: int
) -> dict[str, Any]:
    """Kill every life at its write ``number``, until one ends before that."""
    kills = itertools.repeat(Kill(number, mode))
    lives, wrong = told(story, folder / f"every-{mode}-{number}", kills, reference)
    failed = {f"{story.name} {mode} --every {number}": wrong} if wrong else {}
    return {"lives": len(lives), "failed": failed}


def warm_up(folder: Path) -> None:
    """Do once what every forked process would have to do first, and leave nothing open."""
    open_store(f"sqlite:///{folder / 'warm.db'}").close()
    gc.collect()
    gc.freeze()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("mode", choices=("before", "after"))
    parser.add_argument("--at", type=int, help="only this write")
    parser.add_argument("--every", type=int, help="this write of every life")
    parser.add_argument("--folder", type=Path, help="where to work; failed cases stay there")
    return parser.parse_args()


def add(summary: dict[str, Any], part: dict[str, Any]) -> None:
    """Take a part's counts and failures into the summary."""
    failed = {**summary["failed"], **part["failed"]}
    summary.update({**part, "failed": failed})


def main() -> None:
    """Tell what the command line asks for and print a summary."""
    given = arguments()
    place = given.folder or (IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)
    folder = Path(tempfile.mkdtemp(prefix="pyrula-kills-", dir=place))
    story = story_named(given.story)
    (folder / "undisturbed").mkdir()
    warm_up(folder)
    reference = undisturbed(story, folder / "undisturbed")
    summary: dict[str, Any] = {"writes": reference.writes, "folder": str(folder), "failed": {}}
    if not given.every:
        numbers = iter([given.at]) if given.at else itertools.count(1)
        add(summary, every_kill(story, folder, reference, given.mode, numbers))
    if not given.at:
        every = given.every or every_write
        add(summary, again_and_again(story, folder, reference, given.mode, every))
    if not summary["failed"]:
        shutil.rmtree(folder)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
