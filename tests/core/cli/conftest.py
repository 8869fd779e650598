"""A command line on a store that holds a run in every state."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.core.cli.shell import Shell
from tests.core.cli.states import fill


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "runs.db"
    asyncio.run(fill(f"sqlite:///{path}"))
    return path


@pytest.fixture
def shell(filled: Path, tmp_path: Path) -> Shell:
    """A command line on a store of its own."""
    path = tmp_path / "runs.db"
    shutil.copy(filled, path)
    return Shell(path)
