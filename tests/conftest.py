"""Fixtures that every test may use, and the closing words of ``run.py test``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def quiet_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the developer's keys or store, and none reports to a tracing service."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PYRULA_STORE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "false")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Repeat which checks failed before pytest, where the reader looks last."""
    failed = os.environ.get("PYRULA_FAILED_CHECKS")
    if failed:
        terminalreporter.section("failed before the tests", red=True)
        terminalreporter.line(f"{failed}: see the top of the output")
