"""Fixtures of the core's tests: each store, a registry and a runner of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula_core import (
    InlineWorkflowRunner,
    Registry,
    open_store,
)
from pyrula_core.ports import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def runner(store: Store, registry: Registry) -> InlineWorkflowRunner:
    return InlineWorkflowRunner(store, registry=registry)
