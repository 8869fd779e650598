"""Makes compiled LangGraph graphs durable, unchanged.

``durable`` wraps a graph; ``JournalSaver`` is the checkpointer by itself.
"""

from __future__ import annotations

from pyrula_langgraph.errors import (
    GraphChanged,
    GraphUnsupported,
    InterruptSwallowed,
    ThreadBusy,
)
from pyrula_langgraph.graph import DurableGraph, durable
from pyrula_langgraph.options import NodeOptions
from pyrula_langgraph.saver import JournalSaver
from pyrula_langgraph.serde import GraphSerde

__all__ = [
    "DurableGraph",
    "GraphChanged",
    "GraphSerde",
    "GraphUnsupported",
    "InterruptSwallowed",
    "JournalSaver",
    "NodeOptions",
    "ThreadBusy",
    "durable",
]
