"""Starts the program that kills a story at every write, and fails a test with what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

campaign_seconds_max = 300
ROOT = Path(__file__).resolve().parents[2]


def killed_everywhere(story: str, mode: str) -> dict[str, Any]:
    """Run ``kill_points`` and return its summary; fails when a case did not come out right."""
    command = [sys.executable, "-W", "error", "-m", "tests.crash.kill_points", story, mode]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=campaign_seconds_max,
        check=False,
    )
    if ended.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr}", pytrace=False)
    summary: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    if summary["failed"]:
        shown = [
            f"python -m tests.crash.kill_points {case}\n    " + "\n    ".join(wrong)
            for case, wrong in summary["failed"].items()
        ]
        count = f"{len(shown)} of {summary['killed']} cases went wrong; see {summary['folder']}"
        pytest.fail("\n".join([count, *shown]), pytrace=False)
    return summary
