"""Importing the core stays light: no LangGraph, no LangChain, no Redis client."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOW = "import sys, pyrula_core; print(*sorted(name.split('.')[0] for name in sys.modules))"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The top-level packages in a fresh Python after ``import pyrula_core``."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "package", ["langgraph", "langchain", "langchain_core", "langsmith", "redis", "rich", "click"]
)
def test_importing_the_core_does_not_load(package: str, loaded: set[str]) -> None:
    assert "pyrula_core" in loaded
    assert package not in loaded
