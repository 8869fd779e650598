"""Makes values of states again, out of the bytes of their elements.

Owns the order of decoding. Every call makes new objects: a caller may change what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.types import Send

from pyrula_core.errors import JournalError
from pyrula_langgraph._compat import DeltaSnapshot
from pyrula_langgraph.elements import ValueCodec, is_leaf
from pyrula_langgraph.mutation import watch
from pyrula_langgraph.node_wire import parse
from pyrula_langgraph.shapes import Leaf, Packet, Record, Seq, SeqKind, Snapshot, State

__all__ = ["Reviver"]


class Reviver:
    """Decodes states; with ``keep`` a state remembers the objects, to compare the next with."""

    __slots__ = ("_codec", "_keep", "_raw")

    def __init__(
        self, codec: ValueCodec, raw: Callable[[bytes], bytes | None], *, keep: bool
    ) -> None:
        self._codec = codec
        self._raw = raw
        self._keep = keep

    def value(self, state: State) -> Any:
        """Return the value of a state."""
        match state:
            case Leaf():
                value = self.node(state.node)
                if self._keep:
                    state.value, state.watch = value, watch(value)
                return value
            case Seq():
                return self.sequence(state)
            case Record():
                return {key: self.value(child) for key, child in state.fields.items()}
            case Packet():
                packet = Send(state.node, self.value(state.arg))
                packet.timeout = self.node(state.timeout)
                return packet
            case Snapshot():
                return DeltaSnapshot(self.value(state.inner))

    def sequence(self, state: Seq) -> Any:
        """Return a list or a string."""
        parts = [self.node(node) for node in state.nodes]
        if state.kind is SeqKind.TEXT:
            value: Any = "".join(parts)
        elif state.kind is SeqKind.RUN:
            value = [item for part in parts for item in part]
        else:
            value = parts
        if self._keep:
            state.value = value if state.kind is SeqKind.TEXT else list(value)
            state.watches = list(map(watch, value)) if state.kind is SeqKind.ITEMS else []
        return value

    def node(self, node: Any) -> Any:
        """Return the value of one node."""
        if type(node) is not bytes:
            return self.value(parse(node, None, self._raw))
        if node[0] == 0:
            return self._codec.decode(node[1:])
        if not is_leaf(node):
            return self.value(parse(node, None, self._raw))
        plain = self._raw(node[1:])
        if plain is None:
            raise JournalError(
                f"element {node[1:].hex()} of a checkpoint is missing",
                hint="Restore the store from a backup, or go back to an earlier checkpoint",
            )
        return self._codec.decode(plain)
