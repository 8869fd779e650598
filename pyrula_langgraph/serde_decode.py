"""Turns bytes back into the value they were made of.

Owns the strictness of reading: a class comes from the table of types and nowhere else, no user's
``__init__``, validator or ``__setattr__`` runs, and a class that no longer has the recorded shape
is an error, not a guess.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import ormsgpack
from pydantic_core import PydanticUndefined

from pyrula_core.errors import JournalError, NondeterminismError, PyrulaError
from pyrula_langgraph import serde_numpy
from pyrula_langgraph.serde_simple import FACTORIES, PLAIN_CLASSES, SIMPLE_BY_TAG
from pyrula_langgraph.serde_types import TypeTable, is_flag
from pyrula_langgraph.serde_wire import Code, depth_max

__all__ = ["loads"]

classes_max: Final = 4_096

DAMAGED: Final = "Nothing was executed. Restore the store from a backup"


def loads(table: TypeTable, raw: bytes) -> Any:
    """Return the value of ``raw``.

    Raises NotRegisteredError for a class that may not be rebuilt, NondeterminismError for one whose
    shape changed, JournalError for anything else that cannot be read.
    """
    reading = Reading(table)
    try:
        return ormsgpack.unpackb(raw, ext_hook=reading.hook)
    except Exception as error:  # noqa: BLE001 - whatever bytes do, the contract is three errors
        raise reading.error_of(error) from None


class Reading:
    """One decoding; it keeps the error that the C unpacker would hide."""

    __slots__ = ("_depth", "_error", "_table")

    def __init__(self, table: TypeTable) -> None:
        self._table = table
        self._depth = 0
        self._error: Exception | None = None

    def hook(self, code: int, body: bytes) -> Any:
        """Return the value of an extension."""
        self._depth += 1
        try:
            return self.reader(code)(self, body)
        except Exception as error:
            self._error = self._error or error
            raise
        finally:
            self._depth -= 1

    def reader(self, code: int) -> Callable[[Reading, bytes], Any]:
        """Return how the body of an extension is read."""
        if self._depth > 2 * depth_max:
            raise ValueError("it is nested too deep")
        return READERS[code]

    def error_of(self, error: Exception) -> PyrulaError:
        """Return the error to raise for a failed decoding."""
        seen = self._error or error
        if isinstance(seen, PyrulaError):
            return seen
        return JournalError(
            f"a recorded value cannot be read: {type(seen).__name__}: {seen}", hint=DAMAGED
        )

    def record(self, body: bytes) -> Any:
        return ormsgpack.unpackb(body, ext_hook=self.hook)

    def model(self, body: bytes) -> Any:
        """Return a pydantic model as it was, without validating it again."""
        name, fields, mask, extra, private = self.record(body)
        kind: Any = self._table.resolve(name, "model")
        shape = model_shape(kind)
        was_set = set(fields_set(mask, tuple(fields)))
        fields = self._table.migrated(name, fields)
        if tuple(fields) != shape.names:
            known = shape.fields
            fields = fitted(name, fields, known, lambda field: model_default(known[field]))
        if extra:
            was_set.update(extra)
        elif shape.allows_extra:
            extra = {}
        value = object.__new__(kind)
        set_ = object.__setattr__
        set_(value, "__dict__", fields)
        set_(value, "__pydantic_fields_set__", was_set)
        set_(value, "__pydantic_extra__", extra)
        set_(value, "__pydantic_private__", private_of(private, shape) if shape.private else None)
        return value

    def dataclass(self, body: bytes) -> Any:
        name, fields, beside = self.record(body)
        kind = self._table.resolve(name, "dataclass")
        known = {field.name: field for field in dataclasses.fields(kind)}
        fields = self._table.migrated(name, fields)
        if fields.keys() != known.keys():
            fields = fitted(name, fields, known, lambda field: dataclass_default(known[field]))
        value = object.__new__(kind)
        for field, item in (*fields.items(), *(beside or {}).items()):
            object.__setattr__(value, field, item)
        return value

    def named_tuple(self, body: bytes) -> Any:
        name, fields = self.record(body)
        kind: Any = self._table.resolve(name, "namedtuple")
        defaults = kind._field_defaults
        fields = self._table.migrated(name, fields)
        if tuple(fields) != kind._fields:
            missing = PydanticUndefined
            fields = fitted(name, fields, kind._fields, lambda field: defaults.get(field, missing))
        return tuple.__new__(kind, [fields[field] for field in kind._fields])

    def enum(self, body: bytes) -> Any:
        """Return an enum's member by its name, or a combination of a flag's by value."""
        name, member, *value = self.record(body)
        kind: Any = self._table.resolve(name, "enum")
        if member is None and value and is_flag(kind):
            return kind(value[0])
        found = kind.__members__.get(member)
        if found is None:
            raise NondeterminismError(
                f"enum {name} has no member {member!r} any more",
                recorded=f"member {member!r}",
                asked=f"one of {', '.join(kind.__members__)}",
            )
        return found

    def based(self, body: bytes) -> Any:
        name, bare, beside = self.record(body)
        kind: Any = self._table.resolve(name, "based")
        value = BUILDERS[type(bare)](kind, bare)
        for attribute, item in (beside or {}).items():
            object.__setattr__(value, attribute, item)
        return value

    def class_(self, body: bytes) -> Any:
        (name,) = self.record(body)
        if (plain := PLAIN_CLASSES.get(name)) is not None:
            return plain
        return self._table.resolve_class(name)

    def mapping(self, body: bytes) -> Any:
        pairs = self.record(body)
        return dict(zip(pairs[::2], pairs[1::2], strict=True))

    def default_dict(self, body: bytes) -> Any:
        factory, content = self.record(body)
        return defaultdict(FACTORIES[factory], content)

    def simple(self, body: bytes) -> Any:
        tag, parts = self.record(body)
        return SIMPLE_BY_TAG[tag].build(parts)

    def exception(self, body: bytes) -> Any:
        from pyrula_core.adapter import FailureRecord, rebuild

        return rebuild(FailureRecord.from_json(self.record(body)))


def fitted(
    name: str, fields: dict[str, Any], known: Iterable[str], default: Callable[[str], Any]
) -> dict[str, Any]:
    """Return the recorded fields in the class's order, filled up with its defaults.

    Raises NondeterminismError when a recorded field is gone, or a new one has no default.
    """
    now = list(known)
    fresh = {field: default(field) for field in now if field not in fields}
    lacking = [field for field, value in fresh.items() if value is PydanticUndefined]
    if lacking or not fields.keys() <= set(now):
        raise NondeterminismError(
            f"class {name} has changed since a value of it was recorded "
            "(GraphSerde(migrations={name: function}) can convert the fields)",
            recorded=f"fields {', '.join(fields)}",
            asked=f"fields {', '.join(now)}",
        )
    merged = {field: fields[field] if field in fields else fresh[field] for field in now}
    return {field: value for field, value in merged.items() if value is not UNSET}


UNSET: Final = object()


def model_default(field: Any) -> Any:
    return field.get_default(call_default_factory=field.default_factory is not None)


def dataclass_default(field: Any) -> Any:
    """Return a dataclass field's default; one that ``__init__`` does not set may stay unset."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return PydanticUndefined if field.init else UNSET


@dataclasses.dataclass(frozen=True, slots=True)
class ModelShape:
    """What decoding needs of a pydantic class, looked up once."""

    names: tuple[str, ...]
    fields: dict[str, Any]
    private: dict[str, Any]
    allows_extra: bool


@lru_cache(maxsize=classes_max)
def model_shape(kind: Any) -> ModelShape:
    """Return the shape of a pydantic class."""
    fields = dict(kind.model_fields)
    allows_extra = kind.model_config.get("extra") == "allow"
    return ModelShape(tuple(fields), fields, dict(kind.__private_attributes__), allows_extra)


@lru_cache(maxsize=classes_max)
def fields_set(mask: int, fields: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the recorded fields whose bit is set."""
    return frozenset(field for place, field in enumerate(fields) if mask >> place & 1)


def private_of(recorded: dict[str, Any] | None, shape: ModelShape) -> dict[str, Any]:
    """Return a model's private attributes: the recorded ones, else the class's defaults."""
    if recorded is not None:
        return recorded
    fresh = {name: entry.get_default() for name, entry in shape.private.items()}
    return {name: value for name, value in fresh.items() if value is not PydanticUndefined}


def filled(base: Any, fill: Callable[[Any, Any], None]) -> Callable[[Any, Any], Any]:
    """Return a builder for a mutable built-in's subclass that runs none of its own methods."""

    def build(kind: Any, bare: Any) -> Any:
        value = base.__new__(kind)
        fill(value, bare)
        return value

    return build


BUILDERS: Final[dict[type[Any], Callable[[Any, Any], Any]]] = {
    **{base: base.__new__ for base in (str, int, float, bytes, tuple, frozenset)},
    list: filled(list, list.extend),
    dict: filled(dict, dict.update),
    set: filled(set, set.update),
}

READERS: Final[dict[int, Callable[[Reading, bytes], Any]]] = {
    Code.INT: lambda _, body: int.from_bytes(body, "little", signed=True),
    Code.TEXT: lambda _, body: body.decode("utf-8", "surrogatepass"),
    Code.MAP: Reading.mapping,
    Code.SET: lambda reading, body: set(reading.record(body)),
    Code.FROZENSET: lambda reading, body: frozenset(reading.record(body)),
    Code.SIMPLE: Reading.simple,
    Code.DEFAULTDICT: Reading.default_dict,
    Code.MODEL: Reading.model,
    Code.DATACLASS: Reading.dataclass,
    Code.NAMEDTUPLE: Reading.named_tuple,
    Code.ENUM: Reading.enum,
    Code.BASED: Reading.based,
    Code.CLASS: Reading.class_,
    Code.EXCEPTION: Reading.exception,
    Code.ARRAY: lambda reading, body: serde_numpy.array(reading.record(body)),
    Code.SCALAR: lambda reading, body: serde_numpy.scalar(reading.record(body)),
}
