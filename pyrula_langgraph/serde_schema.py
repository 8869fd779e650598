"""Collects the data classes that a graph's schemas and channels name.

Owns the walk over annotations. Must never call anything the annotations name, and never fail: what
cannot be resolved is left out, and met, if at all, when a value of it is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_type_hints

from langgraph.pregel import Pregel
from pydantic import BaseModel

from pyrula_langgraph.serde_types import kind_of

__all__ = ["graph_types"]

ANSWERS = "langchain.agents.structured_output"
SCHEMA_NAMES = ("state_schema", "input_schema", "output_schema", "context_schema")


def graph_types(graph: Any) -> list[type[Any]]:
    """Return every data class named by a compiled graph, an entrypoint or a graph inside them."""
    walk = Walk()
    for schema in schemas_of(graph, set()):
        walk.visit(schema)
    return list(walk.found)


def schemas_of(graph: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the annotations a graph declares, then those of the graphs inside its nodes."""
    if id(graph) in seen:
        return
    seen.add(id(graph))
    builder = getattr(graph, "builder", None)
    for owner in (graph, builder):
        # Attributes only: a runnable's properties of these names build a pydantic model on the way.
        declared = getattr(owner, "__dict__", {})
        yield from (declared.get(name) for name in SCHEMA_NAMES)
    yield from getattr(builder, "schemas", None) or ()
    for spec in (getattr(builder, "nodes", None) or {}).values():
        yield getattr(spec, "input_schema", None)
    for channel in (getattr(graph, "channels", None) or {}).values():
        yield getattr(channel, "ValueType", None)
        yield getattr(channel, "UpdateType", None)
    for node in (getattr(graph, "nodes", None) or {}).values():
        for inner in getattr(node, "subgraphs", None) or ():
            yield from schemas_of(inner, seen)
        bound = getattr(node, "bound", None)
        if isinstance(bound, Pregel):
            yield from schemas_of(bound, seen)
        yield from answer_schemas(bound)


def answer_schemas(bound: Any) -> Iterator[Any]:
    """Yield the ``response_format`` of ``create_agent``: no annotation names it, a closure does."""
    for cell in getattr(getattr(bound, "func", None), "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            if type(cell.cell_contents).__module__ == ANSWERS:
                yield getattr(cell.cell_contents, "schema", None)


class Walk:
    """One walk over annotations; ``found`` holds the data classes in the order met."""

    def __init__(self) -> None:
        self.found: dict[type[Any], None] = {}
        self._seen: dict[int, Any] = {}

    def visit(self, annotation: Any) -> None:
        """Visit an annotation and everything it is built of."""
        if annotation is None or id(annotation) in self._seen:
            return
        self._seen[id(annotation)] = annotation
        if isinstance(annotation, type):
            self.visit_class(annotation)
        for argument in get_args(annotation):
            self.visit(argument)
        self.visit(getattr(annotation, "__origin__", None))
        self.visit(getattr(annotation, "__supertype__", None))
        self.visit(getattr(annotation, "__bound__", None))
        self.visit(getattr(annotation, "__value__", None))

    def visit_class(self, kind: type[Any]) -> None:
        """Note a data class, and visit the annotations of its fields."""
        is_data = dataclasses.is_dataclass(kind) or issubclass(kind, (BaseModel, Enum))
        is_named = issubclass(kind, tuple) and hasattr(kind, "_fields")
        if (is_data or is_named) and kind is not BaseModel and kind_of(kind) is not None:
            self.found[kind] = None
        if is_data or is_named or hasattr(kind, "__total__"):
            for annotation in annotations_of(kind):
                self.visit(annotation)


def annotations_of(kind: type[Any]) -> list[Any]:
    """Return the resolved annotations of a class's fields, as far as they can be resolved."""
    if issubclass(kind, Enum):
        return []
    if issubclass(kind, BaseModel):
        fields = [field.annotation for field in kind.model_fields.values()]
        return [*fields, *kind.__subclasses__()]
    module = sys.modules.get(kind.__module__)
    names = dict(vars(module)) if module else {}
    try:
        hints = get_type_hints(kind, names, {kind.__name__: kind}, include_extras=True)
    except Exception:  # noqa: BLE001 - a user's annotation may raise anything when evaluated
        return [part for part in vars(kind).get("__annotations__", {}).values() if part is not str]
    return list(hints.values())
