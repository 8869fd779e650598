"""Encodes what users hand to and get from a workflow: JSON, pydantic models and dataclasses.

Owns the ``json/1`` payload codec. What is encoded comes back equal and of the same type, or it is
refused when it is written, naming the path and the type. A class is found again by its name among
the modules that are loaded; nothing is imported, and only dataclasses, pydantic models and enums
are ever rebuilt. Must never do IO.

Values JSON has no form for travel as an object with the single key ``$pyrula``::

    {"$pyrula": ["tuple", [1, 2]]}
    {"$pyrula": ["model", "shop:Order", {"id": 7}]}        pydantic model, field names as keys
    {"$pyrula": ["dataclass", "shop:Line", {"sku": "a"}]}
    {"$pyrula": ["enum", "shop:Colour", "red"]}            an Enum that is also a str
    {"$pyrula": ["object", [["$pyrula", 1]]]}              a user's dict that has that very key
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any, Final, Protocol

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, from_json, to_json

from pyrula_core.errors import (
    JournalError,
    PayloadTooLarge,
    ResultNotSerializable,
    UnknownValueType,
)
from pyrula_core.events import Payload

__all__ = [
    "JSON_CODEC",
    "JsonCodec",
    "ValueCodec",
    "check_payload_size",
    "find_class",
    "type_path",
]

TAG: Final = "$pyrula"
nesting_depth_max: Final = 200
payload_bytes_max: Final = 31 * 1024 * 1024


class ValueCodec(Protocol):
    """Turns a user's value into a payload and back."""

    @property
    def name(self) -> str:
        """The codec's stable name, stored with every payload."""
        ...

    def encode(self, value: object) -> Payload:
        """Return ``value`` as a payload; raises ResultNotSerializable when it would change."""
        ...

    def decode(self, payload: Payload) -> Any:
        """Return the value of a payload; raises JournalError or UnknownValueType."""
        ...


def type_path(kind: type) -> str:
    """Return ``module:qualname`` of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def find_class(path: str) -> type | None:
    """Return the class named ``module:qualname`` when its module is loaded, else None."""
    module_name, _, qualname = path.partition(":")
    found: object = sys.modules.get(module_name)
    for part in qualname.split("."):
        # Looked up in the namespace itself: a module's own __getattr__ may import.
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


class JsonCodec:
    """The codec of plain workflows (``json/1``).

    ``allow_local`` also takes instances of classes defined inside a function, which this process
    can rebuild and another one cannot: right for a run's output, wrong for a step's result.
    """

    name = "json/1"

    def __init__(self, *, allow_local: bool = False) -> None:
        self.allow_local = allow_local

    def encode(self, value: object) -> Payload:
        """Return ``value`` as JSON.

        Raises ResultNotSerializable for anything but None, bool, int, finite float, str, list,
        tuple, dict with str keys, str enums, pydantic models and dataclasses.
        """
        plain = self.plain(value, "$", 0)
        try:
            body = to_json(plain)
        except (PydanticSerializationError, ValueError) as error:
            raise refused(value, "$", f"cannot be written as JSON ({error})") from None
        return Payload(self.name, check_payload_size(body))

    def decode(self, payload: Payload) -> Any:
        """Return the value of a ``json/1`` payload."""
        if payload.codec != self.name:
            raise JournalError(
                f"a payload is encoded as {payload.codec!r}, and {self.name!r} was expected",
                hint="Open this run with the package that wrote it (graph runs: pyrula_langgraph)",
            )
        try:
            return restore(from_json(payload.body))
        except ValueError as error:
            raise JournalError(f"a payload is not JSON ({error})") from None

    def plain(self, value: object, path: str, depth: int) -> Any:
        """Return ``value`` as plain JSON with tags."""
        kind = type(value)
        if value is None or kind is str or kind is int or kind is bool:
            return value
        if kind is float:
            return finite(value, path)
        if depth > nesting_depth_max:
            raise refused(value, path, f"is nested deeper than {nesting_depth_max}")
        if kind is list or kind is tuple:
            items = self.plain_items(value, path, depth)  # type: ignore[arg-type]
            return items if kind is list else {TAG: ["tuple", items]}
        if kind is dict:
            return self.plain_dict(value, path, depth)  # type: ignore[arg-type]
        return self.plain_object(value, path)

    def plain_items(self, items: Sequence[object], path: str, depth: int) -> list[Any]:
        """Return the items of a list or tuple."""
        return [self.plain(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(items)]

    def plain_dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        """Return a dict with str keys, escaped when it has the tag's own key."""
        for key in value:
            if type(key) is not str:
                raise refused(key, path, "is a dict key, and JSON keys are str")
        items = {key: self.plain(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
        return {TAG: ["object", list(map(list, items.items()))]} if TAG in items else items

    def plain_object(self, value: object, path: str) -> Any:
        """Return a model, a dataclass instance or a str enum, tagged with its class."""
        kind = type(value)
        if isinstance(value, Enum):
            if not isinstance(value, str):
                raise refused(value, path, "is an Enum that is not also a str; return its value")
            self.check_findable(value, path)
            return {TAG: ["enum", type_path(kind), str(value.value)]}
        if isinstance(value, BaseModel):
            self.check_findable(value, path)
            return checked(value, path, "model")
        if dataclasses.is_dataclass(kind):
            self.check_findable(value, path)
            return checked(value, path, "dataclass")
        raise refused(value, path, "is not JSON, a pydantic model or a dataclass")

    def check_findable(self, value: object, path: str) -> None:
        """Refuse an instance whose class could not be found again by its name."""
        kind = type(value)
        if find_class(type_path(kind)) is kind:
            return
        if "<locals>" in kind.__qualname__ and self.allow_local:
            LOCAL_CLASSES[type_path(kind)] = kind
            return
        raise refused(value, path, "has a class that cannot be found by its name; move the class")


def check_payload_size(body: bytes) -> bytes:
    """Return an encoded value, or raise PayloadTooLarge beyond ``payload_bytes_max``."""
    if len(body) > payload_bytes_max:
        raise PayloadTooLarge(
            f"a value takes {len(body)} bytes, and one may take {payload_bytes_max}",
            hint="Store it elsewhere and return a reference to it",
        )
    return body


JSON_CODEC: Final = JsonCodec()

# Classes defined inside functions whose instances were a run's output, kept so that this process
# gives them back as they were. The last one of a name wins, as it does in the program itself.
LOCAL_CLASSES: Final[dict[str, type]] = {}


def finite(value: object, path: str) -> object:
    """Return a float that JSON can hold."""
    if not isfinite(value):  # type: ignore[arg-type]
        raise refused(value, path, f"is {value!r}, which JSON cannot hold")
    return value


@lru_cache(maxsize=512)
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a class; building one is slow, so they are kept."""
    return TypeAdapter(kind)


def checked(value: Any, path: str, tag: str) -> dict[str, Any]:
    """Return a tagged model or dataclass after proving that it comes back equal."""
    kind: Any = type(value)
    try:
        fields = adapter(kind).dump_python(value, mode="json", round_trip=True, by_alias=False)
        tagged = {TAG: [tag, type_path(kind), from_json(to_json(fields))]}
        again = rebuilt(kind, fields)
    except (ValueError, TypeError, PydanticSerializationError) as error:
        raise refused(value, path, f"does not survive a round trip ({error})") from None
    if again != value:
        raise refused(value, path, "comes back different after a round trip")
    return tagged


def rebuilt(kind: Any, fields: Any) -> Any:
    """Return an instance of ``kind`` from its dumped fields."""
    return adapter(kind).validate_python(fields, by_alias=False, by_name=True)


def refused(value: object, path: str, why: str) -> ResultNotSerializable:
    """Return the error that names the value's place and type."""
    kind = type_path(type(value))
    return ResultNotSerializable(
        f"the value at {path} of type {kind} {why}", path=path, type_path=kind
    )


def restore(plain: Any) -> Any:
    """Return the user's value of decoded JSON with tags."""
    if isinstance(plain, list):
        return [restore(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if TAG not in plain:
        return {key: restore(item) for key, item in plain.items()}
    tagged = plain[TAG]
    if len(plain) != 1 or not isinstance(tagged, list) or len(tagged) < 2:
        raise JournalError(f"a payload holds a malformed {TAG} tag")
    return restore_tagged(tagged)


def restore_tagged(tagged: list[Any]) -> Any:
    """Return the value of one tag's list."""
    match tagged:
        case ["tuple", list(items)]:
            return tuple(restore(item) for item in items)
        case ["object", list(pairs)]:
            return {key: restore(item) for key, item in pairs}
        case ["enum" | "model" | "dataclass" as tag, str(path), fields]:
            return restore_object(tag, path, fields)
        case _:
            raise JournalError(f"a payload holds the unknown tag {tagged[0]!r}")


def restore_object(tag: str, path: str, fields: Any) -> Any:
    """Return an instance of a loaded class of the right sort, or raise UnknownValueType."""
    kind = find_class(path) or LOCAL_CLASSES.get(path)
    if kind is None or not sort_matches(tag, kind):
        raise UnknownValueType(
            f"a recorded value is of type {path}, which this process has not loaded as a {tag}",
            hint=f"Import the module {path.partition(':')[0]!r} before this run is read",
        )
    try:
        return kind(fields) if tag == "enum" else rebuilt(kind, fields)
    except (ValueError, TypeError) as error:
        raise UnknownValueType(
            f"a recorded value no longer fits its class {path} ({error})",
            hint="Keep the class able to read its old fields, for instance with defaults",
        ) from error


def sort_matches(tag: str, kind: type) -> bool:
    """Tell whether a class is what its tag says: the only three sorts that are rebuilt."""
    if tag == "enum":
        return issubclass(kind, Enum) and issubclass(kind, str)
    if tag == "model":
        return issubclass(kind, BaseModel)
    return dataclasses.is_dataclass(kind)
