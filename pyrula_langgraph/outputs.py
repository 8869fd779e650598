"""The output of a graph's run: small ones as they are, large ones by reference.

A finished run's output is its thread's last state, which the saver holds already. Storing it again
with ``run:complete`` would make every run cost its whole state twice.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from langgraph.channels import UntrackedValue
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from pyrula_core.errors import UnknownValueType
from pyrula_core.events import Payload
from pyrula_langgraph.codec import GraphCodec
from pyrula_langgraph.saver import JournalSaver

__all__ = ["OutputCodec", "output_of"]

inline_bytes_max: Final = 2048
REFERENCE: Final = "graph-ref/1"


class OutputCodec:
    """Encodes outputs for ``run:complete``: as values, or as references to a checkpoint."""

    name = "graph/1"

    def __init__(
        self, codec: GraphCodec, graph: Pregel[Any, Any, Any, Any], saver: JournalSaver
    ) -> None:
        self.codec = codec
        self.graph = copy.copy(graph)
        self.graph.checkpointer = saver

    def encode(self, value: object) -> Payload:
        """Return ``value`` as a payload."""
        return self.codec.encode(value)

    def encode_at(self, value: object, snapshot: StateSnapshot) -> Payload:
        """Return ``value`` as a payload; a large one that ``snapshot`` holds, by reference."""
        value = self.tracked(value)
        body = self.codec.serde.dumps_typed(value)[1]
        if len(body) <= inline_bytes_max or not self.held(body, snapshot):
            return self.codec.encode(value)
        reference = self.codec.encode(snapshot.config["configurable"])
        return Payload(REFERENCE, reference.body)

    def held(self, body: bytes, snapshot: StateSnapshot) -> bool:
        """Tell whether a state holds the output, by its bytes: values may have no ``==``."""
        found = self.tracked(output_of(self.graph, snapshot))
        return self.codec.serde.dumps_typed(found)[1] == body

    def tracked(self, value: Any) -> Any:
        """Return an output without the channels that LangGraph never saves."""
        if not isinstance(value, dict):
            return value
        channels = self.graph.channels
        return {
            name: each
            for name, each in value.items()
            if not isinstance(channels.get(name), UntrackedValue)
        }

    def decode(self, payload: Payload) -> Any:
        """Return the output; raises UnknownValueType when the checkpoint has been pruned."""
        if payload.codec != REFERENCE:
            return self.codec.decode(payload)
        place = self.codec.decode(Payload(self.codec.name, payload.body))
        config: Any = {"configurable": place}
        if self.graph.checkpointer.get_tuple(config) is None:  # type: ignore[union-attr]
            raise UnknownValueType(
                f"the output is in checkpoint {place.get('checkpoint_id')!r}, which was deleted",
                hint="Read a run's output before its thread is pruned",
            )
        return output_of(self.graph, self.graph.get_state(config))


def output_of(graph: Pregel[Any, Any, Any, Any], snapshot: StateSnapshot) -> Any:
    """Return what ``invoke`` returns for a finished thread, read from its state."""
    values, outputs = snapshot.values, graph.output_channels
    if isinstance(graph.stream_channels_asis, str):
        return values
    if isinstance(outputs, str):
        return values.get(outputs)
    return {name: values[name] for name in outputs if name in values}
