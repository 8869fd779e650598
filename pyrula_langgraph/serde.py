"""``GraphSerde``: the serializer of graph values, strict in both directions.

Owns the public face of the codec. What it writes it can read back exactly, or it refuses at write
time, naming the path and the type. There is no pickle, no import by a stored name and no fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from pyrula_core.errors import JournalError, JournalTooNew
from pyrula_langgraph.serde_decode import loads
from pyrula_langgraph.serde_encode import Writer
from pyrula_langgraph.serde_schema import graph_types
from pyrula_langgraph.serde_types import TypeTable
from pyrula_langgraph.serde_wire import FORMAT_VERSION

__all__ = ["CODEC", "GraphSerde"]

CODEC: Final = "pyrula"
VERSION: Final = bytes((FORMAT_VERSION,))


class GraphSerde:
    """Encodes and decodes graph values; implements LangGraph's ``SerializerProtocol``.

    ``allow`` names classes that may be recorded beside the closed table of standard types and
    messages. Unless ``strict``, a dataclass, pydantic model, enum or NamedTuple that stands at the
    top level of a loaded module is allowed too. ``renamed`` maps an old ``module:qualname`` to the
    class that took its place, ``migrations`` a stored name to a function on its recorded fields.

    >>> serde = GraphSerde()
    >>> serde.loads_typed(serde.dumps_typed({"at": (1, 2)}))
    {'at': (1, 2)}
    """

    def __init__(
        self,
        allow: Iterable[type[Any]] = (),
        *,
        strict: bool = False,
        renamed: Mapping[str, type[Any]] | None = None,
        migrations: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        self._table = TypeTable(allow, strict=strict, renamed=renamed, migrations=migrations)
        self._writer = Writer(self._table)

    def allow(self, *kinds: type[Any]) -> GraphSerde:
        """Allow more classes and return this serializer; raises TypeError for no data class."""
        for kind in kinds:
            self._table.allow(kind)
        return self

    def allow_from_graph(self, graph: Any) -> GraphSerde:
        """Allow every data class that a graph's schemas and channels name, nested graphs included.

        Returns this serializer.
        """
        return self.allow(*graph_types(graph))

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the codec's name and the bytes; raises ResultNotSerializable."""
        return CODEC, VERSION + self._writer.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that was dumped.

        Raises NotRegisteredError for a class that may not be rebuilt, NondeterminismError for one
        whose fields changed, JournalTooNew or JournalError for bytes that cannot be read.
        """
        codec, raw = data
        if codec != CODEC or not raw:
            raise JournalError(f"a recorded value is in codec {codec!r}, not {CODEC!r}")
        if raw[0] > FORMAT_VERSION:
            raise JournalTooNew(
                f"a recorded value has format {raw[0]}, this library reads up to {FORMAT_VERSION}",
                hint="Upgrade pyrula; nothing was changed",
            )
        return loads(self._table, raw[1:])

    def with_msgpack_allowlist(self, extra_allowlist: Collection[Any]) -> GraphSerde:
        """Return this serializer: its own table is stricter than LangGraph's list of names."""
        del extra_allowlist
        return self
