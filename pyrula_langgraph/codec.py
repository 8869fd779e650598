"""The payload codec of graph values (``graph/1``): inputs, answers, questions and outputs."""

from __future__ import annotations

from typing import Any

from pyrula_core.errors import JournalError
from pyrula_core.events import Payload
from pyrula_core.values import check_payload_size
from pyrula_langgraph.serde import CODEC, GraphSerde

__all__ = ["GraphCodec"]


class GraphCodec:
    """Encodes with a graph's own serializer, so that journal and checkpoints agree on types."""

    name = "graph/1"

    def __init__(self, serde: GraphSerde) -> None:
        self.serde = serde

    def encode(self, value: object) -> Payload:
        """Return ``value`` as a payload; raises ResultNotSerializable, PayloadTooLarge."""
        return Payload(self.name, check_payload_size(self.serde.dumps_typed(value)[1]))

    def decode(self, payload: Payload) -> Any:
        """Return the value of a payload; raises JournalError for one of another codec."""
        if payload.codec != self.name:
            raise JournalError(
                f"a payload is encoded as {payload.codec!r}, and {self.name!r} was expected",
                hint="This run belongs to a plain workflow; read it with pyrula_core alone",
            )
        return self.serde.loads_typed((CODEC, payload.body))
