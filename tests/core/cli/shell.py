"""Calls ``pyrula`` on one store, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from pyrula_core.cli import main

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "from pyrula_core.cli import main; main(prog_name='pyrula')"


@dataclass(frozen=True)
class Shell:
    """A command line on one store."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["--store", self.url, *words], catch_exceptions=False)

    def document(self, *words: str) -> Any:
        done = self(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def refusal(self, *words: str, code: int) -> dict[str, Any]:
        """The error of a refused call: the same on both streams, in one line without --json."""
        plain, as_json = self(*words), self(*words, "--json")
        assert (plain.exit_code, as_json.exit_code) == (code, code)
        error: dict[str, Any] = json.loads(as_json.stdout)["error"]
        assert list(error) == ["code", "message", "hint", "type"]
        assert plain.stdout == ""
        assert plain.stderr == as_json.stderr
        first, *others = plain.stderr.splitlines()
        assert first.startswith(f"error[{error['code']}]: ")
        assert [line[:6] for line in others] == (["hint: "] if error["hint"] else [])
        return error


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def start(*words: str, **options: Any) -> subprocess.Popen[str]:
    """Start a real ``pyrula`` in its own process."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *words], env=env, **options)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out or "", err or ""
