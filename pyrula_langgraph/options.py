"""Options for nodes, given from outside by name, glob or path: no edit of the graph.

Owns ``NodeOptions`` and how a pattern finds its node. Must never touch a graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

__all__ = ["NodeOptions", "options_for", "unmatched"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How one node, or all that a pattern matches, is run.

    ``retry`` takes a RetryPolicy, a RetryConfig, LangGraph's or Google ADK's own object, and then
    owns the node's retries: LangGraph's own policy on it is switched off. ``timeout`` is in
    seconds, for one attempt of an async node. ``on_unknown`` says what happens when the process
    died inside the node: run it again, or fail the run with ``outcome_unknown``.
    """

    retry: Any = None
    timeout: float | None = None
    on_unknown: Literal["retry", "fail"] = "retry"


def options_for(path: str, nodes: Mapping[str, NodeOptions], default: NodeOptions) -> NodeOptions:
    """Return the options of the node at ``path`` (``parent/child``).

    An exact path wins over a name, a name over a glob; among globs the first given wins.
    """
    name = path.rpartition("/")[2]
    for exact in (path, name):
        if exact in nodes:
            return nodes[exact]
    for pattern, options in nodes.items():
        if fnmatchcase(path, pattern) or fnmatchcase(name, pattern):
            return options
    return default


def unmatched(paths: list[str], nodes: Mapping[str, NodeOptions]) -> list[str]:
    """Return the patterns that match no node: a misspelt one would silently do nothing."""
    names = {*paths, *(path.rpartition("/")[2] for path in paths)}
    return [pattern for pattern in nodes if not any(fnmatchcase(name, pattern) for name in names)]
