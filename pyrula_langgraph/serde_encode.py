"""Turns a value into bytes, or refuses it naming the path and the type.

Owns the strictness of writing. The common case is one pass of the C packer with a hook for what it
does not know. Whatever that pass cannot do exactly (keys that are no strings, lone surrogates,
bytearrays, a refusal that must name its path) is done again by a slow walk in Python.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

import ormsgpack
from pydantic import SecretBytes, SecretStr
from pydantic.types import Secret

from pyrula_core.errors import ResultNotSerializable
from pyrula_langgraph import serde_numpy
from pyrula_langgraph.serde_simple import FACTORIES, PLAIN_CLASSES, SIMPLE
from pyrula_langgraph.serde_types import Refusal, TypeTable, is_flag, kind_of, type_path_of
from pyrula_langgraph.serde_wire import Code, depth_max

__all__ = ["Writer"]

OPTIONS: Final = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
)
ATOMS: Final = frozenset({type(None), bool, float, bytes})
PLAIN: Final = ATOMS | {str, int}
NATIVE: Final = PLAIN | {list, dict}
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1

FACTORY_NAMES: Final = {kind: name for name, kind in FACTORIES.items()}
PLAIN_CLASS_NAMES: Final = {kind: name for name, kind in PLAIN_CLASSES.items()}


class Pass(Protocol):
    """One way of packing: ``sub`` prepares a part of a record, ``pack`` makes bytes of one."""

    def sub(self, value: Any) -> Any: ...

    def pack(self, value: Any) -> bytes: ...


Encode = Callable[[Any, Pass], tuple[int, Any]]


class Writer:
    """Encodes values under a table of types; one may be shared between threads."""

    __slots__ = ("_encoders", "table")

    def __init__(self, table: TypeTable) -> None:
        self.table = table
        self._encoders: dict[type[Any], Encode] = dict(CLOSED)

    def dumps(self, value: Any) -> bytes:
        """Return the bytes of ``value``; raises ResultNotSerializable."""
        try:
            packed = FastPass(self).pack(value)
        except (TypeError, ValueError, Refusal):
            return self._dumps_slowly(value)
        # The C packer writes a bytearray or a memoryview as bytes without asking. Where no byte
        # can be the mark of a byte string there was none; elsewhere the slow walk decides.
        if b"\xc4" in packed or b"\xc5" in packed or b"\xc6" in packed:
            return (
                packed if type(value) in ATOMS or type(value) is str else self._dumps_slowly(value)
            )
        return packed

    def _dumps_slowly(self, value: Any) -> bytes:
        try:
            return SlowPass(self).pack(value)
        except Refusal as refusal:
            raise ResultNotSerializable(
                f"{refusal.path} is a {refusal.type_path}, which cannot be recorded: {refusal.why}",
                path=refusal.path,
                type_path=refusal.type_path,
            ) from None

    def encoder(self, kind: type[Any]) -> Encode:
        """Return how values of exactly this class are encoded; raises Refusal."""
        found = self._encoders.get(kind)
        if found is None:
            found = self._encoders[kind] = classify(kind, self.table)
        return found


class FastPass:
    """Packs natively; the C packer calls ``hook`` for whatever it does not know."""

    __slots__ = ("_depth", "_writer")

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._depth = 0

    def sub(self, value: Any) -> Any:
        return value

    def pack(self, value: Any) -> bytes:
        if type(value) not in NATIVE:
            value = self.hook(value)
        return ormsgpack.packb(value, self.hook, OPTIONS)

    def hook(self, value: Any) -> ormsgpack.Ext:
        """Return the extension value for ``value``."""
        if self._depth >= depth_max:
            raise TypeError("too deep")
        self._depth += 1
        code, record = self._writer.encoder(type(value))(value, self)
        body = record if type(record) is bytes else ormsgpack.packb(record, self.hook, OPTIONS)
        self._depth -= 1
        return ormsgpack.Ext(code, body)


class SlowPass:
    """Walks the value in Python: exact for everything, and knows where it is."""

    __slots__ = ("_depth", "_writer")

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._depth = 0

    def pack(self, value: Any) -> bytes:
        return ormsgpack.packb(self.sub(value), None, OPTIONS)

    def sub(self, value: Any) -> Any:
        """Return ``value`` as the C packer's own types and extensions."""
        kind = type(value)
        if kind in ATOMS:
            return value
        if kind is str:
            return text(value)
        if kind is int and INT_MIN <= value <= INT_MAX:
            return value
        if self._depth >= depth_max:
            raise Refusal(
                f"it is nested more than {depth_max} deep, or refers to itself", type_path_of(kind)
            )
        self._depth += 1
        if kind is list:
            walked: Any = [self.at(f"[{place}]", item) for place, item in enumerate(value)]
        elif kind is dict:
            walked = self.mapping(value)
        else:
            code, record = self._writer.encoder(kind)(value, self)
            packed = record if type(record) is bytes else ormsgpack.packb(record, None, OPTIONS)
            walked = ormsgpack.Ext(code, packed)
        self._depth -= 1
        return walked

    def at(self, segment: str, value: Any) -> Any:
        """Return ``value`` walked; a refusal inside learns that it lies under ``segment``."""
        try:
            return self.sub(value)
        except Refusal as refusal:
            refusal.segments.append(segment)
            raise

    def mapping(self, value: Mapping[Any, Any]) -> Any:
        """Return a dict with plain string keys natively, any other as a list of pairs."""
        if all(type(key) is str and is_unicode(key) for key in value):
            return {key: self.at(segment_of(key), item) for key, item in value.items()}
        pairs: list[Any] = []
        for key, item in value.items():
            segment = segment_of(key)
            pairs.append(self.at(segment, key))
            pairs.append(self.at(segment, item))
        return ormsgpack.Ext(Code.MAP, ormsgpack.packb(pairs, None, OPTIONS))


def is_unicode(value: str) -> bool:
    """Return whether a string holds no lone surrogate."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: str) -> Any:
    """Return a string as it is, or, with lone surrogates, as an extension."""
    if is_unicode(value):
        return value
    return ormsgpack.Ext(Code.TEXT, value.encode("utf-8", "surrogatepass"))


def segment_of(key: Any) -> str:
    """Return how a key reads in a path."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r:.60}]"


def big_int(value: int, via: Pass) -> tuple[int, Any]:
    del via
    return Code.INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def members(code: int) -> Encode:
    """Return the encoding of sets: sorted by their bytes, so that equal sets have equal bytes."""

    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        return code, [ormsgpack.Fragment(item) for item in sorted(map(via.pack, value))]

    return encode


def default_dict(value: defaultdict[Any, Any], via: Pass) -> tuple[int, Any]:
    name = FACTORY_NAMES.get(value.default_factory)
    if name is None:
        raise Refusal(
            f"its default factory {value.default_factory!r:.60} is no built-in type: use "
            "defaultdict(list), defaultdict(int) and the like, or a plain dict",
            "collections:defaultdict",
        )
    return Code.DEFAULTDICT, [name, via.sub(dict(value))]


def simple(tag: str, parts: Callable[[Any], Any]) -> Encode:
    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        return Code.SIMPLE, [tag, via.sub(parts(value))]

    return encode


def secret(value: Any, via: Pass) -> tuple[int, Any]:
    del via
    raise Refusal(
        "a secret is never written in clear: keep it out of the graph's state, pass it through "
        "the runtime context, or read it inside the node that needs it",
        type_path_of(type(value)),
    )


def plain_class(table: TypeTable) -> Encode:
    def encode(value: type[Any], via: Pass) -> tuple[int, Any]:
        del via
        name = PLAIN_CLASS_NAMES.get(value)
        return Code.CLASS, [name or table.name_of(value)]

    return encode


def exception(value: BaseException, via: Pass) -> tuple[int, Any]:
    from pyrula_core.adapter import live

    return Code.EXCEPTION, via.sub(live(value)[0].to_json())


def model(name: str, kind: Any) -> Encode:
    """Return the encoding of a pydantic model: fields, which were set, extra, private."""
    fields = tuple(kind.model_fields)
    bits = {field: 1 << place for place, field in enumerate(fields)}

    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        state, sub = value.__dict__, via.sub
        if tuple(state) != fields:
            state = {field: state[field] for field in fields if field in state}
        mask = 0
        if len(state) == len(fields):
            for field in value.__pydantic_fields_set__:
                mask |= bits.get(field, 0)
        else:
            for place, field in enumerate(state):
                mask |= (field in value.__pydantic_fields_set__) << place
        extra, private = value.__pydantic_extra__, value.__pydantic_private__
        return Code.MODEL, [
            name,
            sub(state),
            mask if mask <= INT_MAX else sub(mask),
            sub(extra) if extra else None,
            sub(private) if private else None,
        ]

    return encode


def dataclass(name: str, kind: type[Any]) -> Encode:
    """Return the encoding of a dataclass: its fields, then attributes set beside them."""
    fields = tuple(field.name for field in dataclasses.fields(kind))
    skipped = frozenset(fields) | {
        name
        for owner in kind.__mro__
        for name, value in vars(owner).items()
        if isinstance(value, cached_property)
    }

    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        state = {field: getattr(value, field) for field in fields if hasattr(value, field)}
        own = getattr(value, "__dict__", {})
        beside = {name: own[name] for name in own if name not in skipped}
        return Code.DATACLASS, [name, via.sub(state), via.sub(beside) if beside else None]

    return encode


def named_tuple(name: str, kind: Any) -> Encode:
    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        if getattr(value, "__dict__", None):
            raise Refusal("it carries attributes beside its fields", type_path_of(kind))
        return Code.NAMEDTUPLE, [name, via.sub(dict(zip(kind._fields, value, strict=True)))]

    return encode


def enumeration(name: str, kind: Any) -> Encode:
    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        if kind.__members__.get(value.name) is value:
            return Code.ENUM, [name, via.sub(value.name)]
        if not is_flag(kind):
            raise Refusal("it is no member of its enum", type_path_of(kind))
        return Code.ENUM, [name, None, via.sub(value.value)]

    return encode


BARE: Final[dict[type[Any], Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__index__,
    float: float.__float__,
    bytes: lambda v: bytes.__getitem__(v, slice(None)),
    list: lambda v: list.__getitem__(v, slice(None)),
    tuple: lambda v: tuple.__getitem__(v, slice(None)),
    dict: lambda v: dict(dict.items(v)),
    set: lambda v: set(set.__iter__(v)),
    frozenset: lambda v: frozenset(frozenset.__iter__(v)),
}
"""The built-in value inside an instance of a subclass, whatever the subclass overrides."""


def based(name: str, kind: type[Any]) -> Encode:
    bare = next(strip for base, strip in BARE.items() if issubclass(kind, base))

    def encode(value: Any, via: Pass) -> tuple[int, Any]:
        beside = getattr(value, "__dict__", None)
        return Code.BASED, [name, via.sub(bare(value)), via.sub(dict(beside)) if beside else None]

    return encode


SHAPES: Final[dict[str, Callable[[str, type[Any]], Encode]]] = {
    "model": model,
    "dataclass": dataclass,
    "namedtuple": named_tuple,
    "enum": enumeration,
    "based": based,
}

CLOSED: Final[dict[type[Any], Encode]] = {
    **{entry.kind: simple(entry.tag, entry.parts) for entry in SIMPLE},
    int: big_int,
    set: members(Code.SET),
    frozenset: members(Code.FROZENSET),
    defaultdict: default_dict,
}


def classify(kind: type[Any], table: TypeTable) -> Encode:
    """Return the encoding for a class that is not in the closed table; raises Refusal."""
    if issubclass(kind, (SecretStr, SecretBytes, Secret)):
        return secret
    if issubclass(kind, BaseException):
        return exception
    if issubclass(kind, type):
        return plain_class(table)
    if (numpy := serde_numpy.encoding(kind)) is not None:
        return numpy
    shape = kind_of(kind)
    if shape is None:
        raise Refusal(
            "only plain values, dataclasses, pydantic models, enums, NamedTuples and messages can "
            "be; keep live objects out of the graph's state",
            type_path_of(kind),
        )
    return SHAPES[shape](table.name_of(kind), kind)
