"""The README's first example does what the README says of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def agent(repository: Path, tmp_path: Path) -> Path:
    """Write the example, exactly as it stands in the README, into an empty folder."""
    text = (repository / "README.md").read_text()
    source = next(
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "# agent.py" in block
    )
    script = tmp_path / "agent.py"
    script.write_text(source)
    return script


def start(script: Path, repository: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    return subprocess.Popen(
        [sys.executable, script.name],
        cwd=script.parent,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.crash
def test_the_example_goes_on_after_kill_9_and_then_has_its_result(
    agent: Path, repository: Path
) -> None:
    with start(agent, repository) as first:
        assert first.stdout is not None
        lines = [first.stdout.readline() for _ in range(2)]
        os.kill(first.pid, signal.SIGKILL)
    assert [line.split()[0] for line in lines] == ["fetch", "think"]

    second, _ = start(agent, repository).communicate(timeout=60)
    ran = [line.split()[0] for line in second.splitlines()]
    assert ran == ["think", "act", "report", "{'done':"]

    third, _ = start(agent, repository).communicate(timeout=60)
    assert third.strip() == "{'done': ['fetch', 'think', 'act', 'report']}"


@pytest.mark.crash
def test_the_second_example_asks_and_is_answered_by_another_process(
    repository: Path, tmp_path: Path
) -> None:
    text = (repository / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    script = tmp_path / "refund.py"
    script.write_text(next(block for block in blocks if "# refund.py" in block))
    said = [output_of(script, repository, *words) for words in ([], ["yes"], ["yes"])]
    assert said[0].startswith("paying back 42 under key refunds/order-7/1.refund>charge back#0")
    assert "interrupted {'ship a replacement too?': 42}" in said[0]
    done = "complete {'amount': 42, 'result': 'refunded 42, replacement: yes'}"
    assert [text.strip() for text in said[1:]] == [done, done]


def output_of(script: Path, repository: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [sys.executable, script.name, *words]
    return subprocess.run(
        command, cwd=script.parent, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_example_is_short_enough_to_be_read(agent: Path) -> None:
    code = [line for line in agent.read_text().splitlines() if line.strip()]
    assert len(code) <= 25


def test_every_page_the_readme_links_to_is_there(repository: Path) -> None:
    text = (repository / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (repository / target).is_file(), target
