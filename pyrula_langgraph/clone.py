"""Copies a compiled graph with every node made durable, at any depth; the original is untouched.

Owns where wrapped nodes are put. ``copy.copy`` is used throughout: ``Pregel.copy`` drops the
mappers that turn state into the user's classes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableSequence
from langgraph.pregel import Pregel

from pyrula_core import RetryPolicy
from pyrula_core.adapter import as_policy
from pyrula_langgraph._compat import PregelNode, RunnableSeq
from pyrula_langgraph.nodes import DurableNode
from pyrula_langgraph.options import NodeOptions, options_for

__all__ = ["durable_clone", "node_paths"]


def durable_clone(
    graph: Pregel[Any, Any, Any, Any],
    *,
    nodes: Mapping[str, NodeOptions] | None = None,
    default: NodeOptions = NodeOptions(),
    outer: str = "",
) -> Pregel[Any, Any, Any, Any]:
    """Return a copy of ``graph`` whose nodes, and those of its subgraphs, are durable steps."""
    cloned = copy.copy(graph)
    cloned.nodes = {
        name: durable_node(node, f"{outer}{name}", nodes or {}, default)
        for name, node in graph.nodes.items()
    }
    return cloned


def durable_node(
    node: PregelNode, path: str, nodes: Mapping[str, NodeOptions], default: NodeOptions
) -> PregelNode:
    """Return a copy of a node with its runnable wrapped; one that is wrapped already as it is."""
    if isinstance(node.node, DurableNode) or node.node is None:
        return node
    cloned = copy.copy(node)
    for cached in ("node", "flat_writers"):
        cloned.__dict__.pop(cached, None)
    swapped: dict[int, Runnable[Any, Any]] = {}
    cloned.bound = durable_bound(node.bound, path, nodes, default, swapped)
    cloned.subgraphs = [swapped.get(id(each), each) for each in node.subgraphs]  # type: ignore[misc]
    options = options_for(path, nodes, default)
    policy: RetryPolicy | None = as_policy(options.retry)
    if policy is not None:
        # One owner of a node's retries: two would multiply.
        cloned.retry_policy = ()
    inner = cloned.node
    assert inner is not None, "checked above"
    # A cached property does not override the instance's own attribute.
    unsaved = isinstance(node.bound, Pregel) and node.bound.checkpointer is False
    cloned.__dict__["node"] = DurableNode(inner, options=options, policy=policy, unsaved=unsaved)
    return cloned


def durable_bound(
    bound: Runnable[Any, Any],
    path: str,
    nodes: Mapping[str, NodeOptions],
    default: NodeOptions,
    swapped: dict[int, Runnable[Any, Any]],
) -> Runnable[Any, Any]:
    """Return a node's body with the graphs it consists of cloned too."""
    if isinstance(bound, Pregel):
        clone = durable_clone(bound, nodes=nodes, default=default, outer=f"{path}/")
        if all(clone.nodes[name] is node for name, node in bound.nodes.items()):
            # Wrapped before: it keeps its identity, by which LangGraph finds its subgraphs.
            return bound
        swapped[id(bound)] = clone
        return clone
    if isinstance(bound, (RunnableSequence, RunnableSeq)):
        steps = [durable_bound(step, path, nodes, default, swapped) for step in bound.steps]
        if all(new is old for new, old in zip(steps, bound.steps, strict=True)):
            return bound
        sequence = copy.copy(bound)
        if isinstance(sequence, RunnableSeq):
            sequence.steps = steps
        else:
            sequence.first, sequence.middle, sequence.last = steps[0], steps[1:-1], steps[-1]
        return sequence
    inner = getattr(bound, "bound", None)
    if isinstance(inner, Runnable):
        replaced = durable_bound(inner, path, nodes, default, swapped)
        if replaced is not inner:
            binding = copy.copy(bound)
            binding.bound = replaced  # type: ignore[attr-defined]
            return binding
    return bound


def node_paths(graph: Pregel[Any, Any, Any, Any], outer: str = "") -> Iterator[str]:
    """Yield the path of every node that can be given options: ``parent/child`` where nested."""
    for name, node in graph.nodes.items():
        yield f"{outer}{name}"
        for inner in node.subgraphs:
            if isinstance(inner, Pregel):
                yield from node_paths(inner, f"{outer}{name}/")
