"""Which classes a stored value may name, and how a stored name becomes a class again.

Owns the table of allowed types. Nothing here imports a module or follows a module's
``__getattr__``: a name is looked up in the table, or, unless the table is strict, in the plain
namespace of a module that is already loaded, and then only when a data class is found there.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag
from typing import Any, Final, Literal

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.types import Command, Interrupt, Overwrite, PregelTask, StateSnapshot, TimeoutPolicy
from pydantic import BaseModel

from pyrula_core.errors import NotRegisteredError
from pyrula_langgraph._compat import CLOSED_DICTS, CLOSED_TEXTS, DeltaSnapshot

__all__ = ["Kind", "Refusal", "TypeTable", "kind_of", "type_path_of"]

Kind = Literal["model", "dataclass", "namedtuple", "enum", "based"]

CLOSED_NAMES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        AIMessage,
        AIMessageChunk,
        ChatMessage,
        ChatMessageChunk,
        FunctionMessage,
        FunctionMessageChunk,
        HumanMessage,
        HumanMessageChunk,
        RemoveMessage,
        SystemMessage,
        SystemMessageChunk,
        ToolMessage,
        ToolMessageChunk,
        Document,
        Command,
        Interrupt,
        Overwrite,
        PregelTask,
        StateSnapshot,
        TimeoutPolicy,
        *CLOSED_TEXTS,
        *CLOSED_DICTS,
    )
} | {"DeltaSnapshot": DeltaSnapshot}
"""Types every table allows, under names that outlive a move between their packages' modules."""

BASES: Final = (str, int, float, bytes, list, dict, set, frozenset, tuple)


class Refusal(Exception):
    """A value that cannot be recorded; ``segments`` grow outwards while it is raised."""

    def __init__(self, why: str, type_path: str) -> None:
        super().__init__(why)
        self.why = why
        self.type_path = type_path
        self.segments: list[str] = []

    @property
    def path(self) -> str:
        """Where the value stands, as ``$.messages[3].artifact``."""
        return "$" + "".join(reversed(self.segments))


def type_path_of(kind: type[Any]) -> str:
    """Return ``module:qualname`` of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def kind_of(kind: Any) -> Kind | None:
    """Return what sort of data class this is, or None when it is none that can be recorded."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Enum):
        return "enum"
    if issubclass(kind, BaseModel):
        return "model"
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return "namedtuple"
    if issubclass(kind, BASES):
        return "based"
    return "dataclass" if dataclasses.is_dataclass(kind) else None


class TypeTable:
    """The types a serializer may write and rebuild.

    ``allow`` adds a class for good. Without ``strict`` a data class of a loaded module (a
    dataclass, pydantic model, enum or NamedTuple) is allowed when it is met.
    """

    __slots__ = ("_kinds", "_migrations", "_names", "_types", "strict")

    def __init__(
        self,
        allow: Iterable[type[Any]] = (),
        *,
        strict: bool = False,
        renamed: Mapping[str, type[Any]] | None = None,
        migrations: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        self.strict = strict
        self._types = dict(CLOSED_NAMES)
        self._names = {kind: name for name, kind in CLOSED_NAMES.items()}
        self._kinds = {name: kind_of(kind) for name, kind in CLOSED_NAMES.items()}
        self._migrations = dict(migrations or {})
        for kind in allow:
            self.allow(kind)
        for name, kind in (renamed or {}).items():
            self.allow(kind)
            self._add(name, kind)

    def allow(self, kind: type[Any]) -> None:
        """Allow a class to be written and rebuilt; raises TypeError for what is no data class."""
        if kind_of(kind) is None:
            raise TypeError(
                f"{kind!r} cannot be allowed: only dataclasses, pydantic models, enums, "
                "NamedTuples and subclasses of built-in values can be recorded"
            )
        if kind not in self._names:
            name = type_path_of(kind)
            self._names[kind] = name
            self._add(name, kind)

    def _add(self, name: str, kind: type[Any]) -> None:
        self._types[name] = kind
        self._kinds[name] = kind_of(kind)

    def name_of(self, kind: type[Any]) -> str:
        """Return the stored name of a class; raises Refusal when it may not be written."""
        name = self._names.get(kind)
        if name is not None:
            return name
        path = type_path_of(kind)
        if self.strict or kind_of(kind) == "based" or loaded_type(path) is not kind:
            raise Refusal(
                "its class is not registered: add it to GraphSerde(allow=[...]), or name it in the "
                "graph's state schema",
                path,
            )
        self.allow(kind)
        return path

    def resolve(self, name: str, expected: Kind) -> type[Any]:
        """Return the class stored under ``name``; raises NotRegisteredError, and never imports."""
        if self._kinds.get(name) == expected:
            return self._types[name]
        kind = self._types.get(name)
        if kind is None and not self.strict and expected != "based":
            kind = loaded_type(name)
        if kind is None or kind_of(kind) != expected:
            raise unknown(name, expected)
        return kind

    def resolve_class(self, name: str) -> type[Any]:
        """Return the class recorded as a value under ``name``, whatever its kind."""
        kind = self._types.get(name)
        if kind is None and not self.strict:
            kind = loaded_type(name)
        if kind is None:
            raise unknown(name, "class")
        return kind

    def migrated(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the recorded fields, passed through the migration registered for ``name``."""
        migrate = self._migrations.get(name) if self._migrations else None
        return fields if migrate is None else migrate(fields)


def unknown(name: str, kind: str) -> NotRegisteredError:
    """Return the error for a stored name that this process cannot or may not resolve."""
    return NotRegisteredError(
        f"a recorded value is a {kind} of class {name!r}, "
        "which this process has not loaded or does not allow",
        hint="Import the module that defines it before reading, add the class to "
        "GraphSerde(allow=[...]), or map its old name with GraphSerde(renamed={...})",
    )


def loaded_type(name: str) -> type[Any] | None:
    """Return the class ``module:qualname`` of a loaded module, reading plain namespaces only."""
    module_name, _, qualname = name.partition(":")
    module = sys.modules.get(module_name)
    space: Mapping[str, Any] = {} if module is None else vars(module)
    found: Any = None
    for part in qualname.split("."):
        found = space.get(part)
        space = found.__dict__ if isinstance(found, type) else {}
    return found if isinstance(found, type) and kind_of(found) is not None else None


def is_flag(kind: type[Any]) -> bool:
    """Return whether members of this enum can be combined."""
    return issubclass(kind, Flag)
