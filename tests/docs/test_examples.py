"""The example files in the documentation run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILE = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


def examples() -> list[tuple[str, str, str]]:
    """Return page, file name and source of every example that is a whole file."""
    pages = sorted(DOCS.glob("*.md"))
    return [(page.name, *found) for page in pages for found in FILE.findall(page.read_text())]


def arguments(name: str) -> list[str]:
    """Return how Python is told to run a file: a test file with pytest."""
    pytest_run = ["-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    return [*pytest_run, name] if name.startswith("test_") else [name]


def test_there_are_examples() -> None:
    assert len(examples()) >= 3


@pytest.mark.parametrize("page, name, source", examples(), ids=lambda text: text[:30])
def test_an_example_runs(page: str, name: str, source: str, tmp_path: Path) -> None:
    for other, neighbour, text in examples():
        if other == page:
            (tmp_path / neighbour).write_text(text)
    (tmp_path / name).write_text(source)
    done = subprocess.run(
        [sys.executable, *arguments(name)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
