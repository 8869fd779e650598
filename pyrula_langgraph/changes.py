"""Notices that a graph has changed under a run in a way that would lose work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langgraph.pregel import Pregel
from langgraph.types import Send

from pyrula_langgraph.errors import GraphChanged

__all__ = ["check_nodes_there"]

BRANCH: Final = "branch:to:"
TASKS: Final = "__pregel_tasks"


def check_nodes_there(graph: Pregel[Any, Any, Any, Any], values: Mapping[str, Any]) -> None:
    """Raise GraphChanged when a thread's state leads to a node that the graph does not have.

    LangGraph would end the run there, silently, as if it were complete.
    """
    missing = sorted({name for name in next_nodes(values) if name not in graph.nodes})
    if missing:
        raise GraphChanged(
            f"the run goes on with {missing}, and the graph has no such node "
            f"(it has {sorted(set(graph.nodes) - {'__start__'})})",
            hint="Restore the node, or cancel the run; nothing was executed and nothing is lost",
        )


def next_nodes(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the nodes that a checkpoint's channel values lead to."""
    for channel, value in values.items():
        if channel.startswith(BRANCH):
            yield channel.removeprefix(BRANCH)
        elif channel == TASKS and isinstance(value, (list, tuple)):
            yield from (packet.node for packet in value if isinstance(packet, Send))
