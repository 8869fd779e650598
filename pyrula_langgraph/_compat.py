"""Every private name of LangGraph and LangChain that this package uses, and nothing else.

An upgrade has this one place to look. Supported: langgraph >= 1.2, < 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# --- the saver and its serializer ---------------------------------------------------------------
from langchain_core.messages.base import TextAccessor
from langchain_core.runnables.utils import AddableDict
from langgraph._internal._config import DEFAULT_RECURSION_LIMIT
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_DURABILITY,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    CONFIG_KEY_STRICT_RESUME,
    CONFIG_KEY_TASK_ID,
    ERROR,
    ERROR_SOURCE_NODE,
    INTERRUPT,
    NO_WRITES,
    RESUME,
)
from langgraph._internal._runnable import RunnableSeq
from langgraph.checkpoint.serde.types import SCHEDULED, _DeltaSnapshot
from langgraph.pregel._read import PregelNode

DeltaSnapshot = _DeltaSnapshot

CLOSED_TEXTS = (TextAccessor,)
"""Subclasses of str that LangChain hands out as values (``message.text``)."""

CLOSED_DICTS = (AddableDict,)
"""Subclasses of dict that LangChain hands out as values (streamed outputs)."""

CONTROL_CHANNELS = frozenset({ERROR, ERROR_SOURCE_NODE, INTERRUPT, NO_WRITES, RESUME, SCHEDULED})
"""Channels whose writes say how a task went; every other write is a task's result."""

# --- the node wrapper and the driver ------------------------------------------------------------

CHECKPOINT_NS = CONFIG_KEY_CHECKPOINT_NS
DURABILITY = CONFIG_KEY_DURABILITY
SCRATCHPAD = CONFIG_KEY_SCRATCHPAD
SEND = CONFIG_KEY_SEND
STRICT_RESUME = CONFIG_KEY_STRICT_RESUME
TASK_ID = CONFIG_KEY_TASK_ID

NS_SEPARATOR = "|"
NS_END = ":"
PUSH_PATH = "__pregel_push"
HANDLER_PATH = "node_error_handler"

__all__ = [
    "CHECKPOINT_NS",
    "CLOSED_DICTS",
    "CLOSED_TEXTS",
    "CONTROL_CHANNELS",
    "DEFAULT_RECURSION_LIMIT",
    "DURABILITY",
    "ERROR",
    "ERROR_SOURCE_NODE",
    "HANDLER_PATH",
    "INTERRUPT",
    "NO_WRITES",
    "NS_END",
    "NS_SEPARATOR",
    "PUSH_PATH",
    "RESUME",
    "SCHEDULED",
    "SCRATCHPAD",
    "SEND",
    "STRICT_RESUME",
    "TASK_ID",
    "DeltaSnapshot",
    "PregelNode",
    "RunnableSeq",
    "reset_child_counters",
    "swallowed_interrupt",
]


def reset_child_counters(configurable: Mapping[str, Any]) -> None:
    """Reset the numbering of a node's children, as its next attempt counts them anew.

    LangGraph resets only its interrupt counter between attempts of a node, so children that had
    finished in an earlier attempt would get other ids and run twice.
    """
    scratchpad: Any = configurable.get(SCRATCHPAD)
    for name in ("call_counter", "subgraph_counter"):
        counter: Any = getattr(scratchpad, name, None)
        if hasattr(counter, "_counter"):
            counter._counter = None  # noqa: SLF001


def swallowed_interrupt(configurable: Mapping[str, Any]) -> bool:
    """Tell whether the node asked a question that nobody had answered, and went on regardless."""
    scratchpad: Any = configurable.get(SCRATCHPAD)
    counter: Any = getattr(scratchpad, "interrupt_counter", None)
    if scratchpad is None or getattr(counter, "_counter", None) is None:
        return False
    return bool(counter() > len(scratchpad.resume))
