"""Fixtures of the adapter's tests: each store, and a way to wrap a graph on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import StateGraph

from pyrula_core import (
    Registry,
    open_store,
)
from pyrula_core.ports import Store
from pyrula_langgraph import (
    DurableGraph,
    durable,
)
from tests.langgraph.graphs import Wrap


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def wrap(store: Store) -> Wrap:
    registry = Registry()

    def wrapped(graph: Any, **options: Any) -> DurableGraph:
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        return durable(compiled, name="bot", store=store, registry=registry, **options)

    return wrapped
