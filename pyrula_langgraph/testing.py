"""What tests of other projects may use: the node wrapper with no run around it."""

from __future__ import annotations

from typing import Any

from langgraph.pregel import Pregel

from pyrula_langgraph.clone import durable_clone

__all__ = ["wrap_nodes"]


def wrap_nodes(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """Return a copy of a compiled graph whose nodes are wrapped, as ``durable`` wraps them.

    Without a run the wrapper must change nothing: LangGraph's own test suite runs through it.
    """
    return durable_clone(graph)
