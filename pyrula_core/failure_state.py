"""What an exception carries, its args and attributes, as tagged JSON and back.

Owns the tags and the limits on such values. Knows where exceptions keep their values: the instance
dict, ``__slots__``, and the fields of classes written in C. Reading them runs no code of the user's
and finds nothing by importing.

Values that JSON has no form for travel as an object with the single key ``$pyrula``, as they do in
payloads::

    {"$pyrula": ["tuple", [1, 2]]}
    {"$pyrula": ["bytes", "aGk="]}                  base64
    {"$pyrula": ["surrogates", "7aCA"]}             base64 of a str that UTF-8 cannot hold
    {"$pyrula": ["enum", "shop:Colour", "red"]}     an Enum that is also a str
    {"$pyrula": ["member", 0]}                      a member of the exception group itself
    {"$pyrula": ["object", [["$pyrula", 1]]]}       a user's dict that has that very key
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias

from pyrula_core.errors import JournalError, UnknownValueType

__all__ = [
    "Json",
    "NotPlain",
    "StateWriter",
    "carried",
    "check_tags",
    "class_path",
    "clean",
    "fields_of",
    "is_json",
    "loaded_class",
    "malformed",
    "members_of",
    "native",
    "own_dict",
    "restore",
]

state_chars_max: Final = 262_144
value_depth_max: Final = 32
int_bits_max: Final = 4_096
value_chars_min: Final = 8
"""What the smallest value counts for, so that a million empty lists also reach the limit."""

TAG: Final = "$pyrula"

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class NotPlain(Exception):
    """A value that a record cannot hold; the text says which and why."""


# --- where exceptions keep their values -----------------------------------------------------------


def native(exc: BaseException, name: str) -> Any:
    """Return an attribute through BaseException's own descriptor, past any override."""
    return vars(BaseException)[name].__get__(exc)


def own_dict(exc: BaseException) -> dict[str, Any]:
    """Return the instance dict itself, not a copy."""
    found: dict[str, Any] = native(exc, "__dict__")
    return found


def members_of(exc: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an exception group; of anything else, none."""
    # Not isinstance(): where the type does not match, that asks the instance for its __class__.
    if not issubclass(type(exc), BaseExceptionGroup):
        return ()
    found: tuple[BaseException, ...] = vars(BaseExceptionGroup)["exceptions"].__get__(exc)
    return found


def fields_of(kind: type) -> dict[str, Any]:
    """Return the descriptors of what instances keep outside their dict.

    They are the ``__slots__`` of Python classes and the fields of classes written in C, alike.
    """
    found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if owner is not BaseException:
            members = vars(owner).items()
            found |= {name: d for name, d in members if isinstance(d, MemberDescriptorType)}
    if issubclass(kind, OSError):
        found["characters_written"] = vars(OSError)["characters_written"]
    if issubclass(kind, BaseExceptionGroup):
        found.pop("exceptions", None)
    # The object that lacks the attribute is kept by Python for "did you mean" only. It is hardly
    # ever JSON, and recording it would leave no AttributeError that can be rebuilt.
    if found.get("obj") is vars(AttributeError)["obj"]:
        del found["obj"]
    return found


def carried(exc: BaseException) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an exception with their names, notes excepted."""
    for name, value in list(own_dict(exc).items()):
        if name != "__notes__":
            yield name, value
    for name, descriptor in fields_of(type(exc)).items():
        try:
            value = descriptor.__get__(exc, type(exc))
        except AttributeError:  # a slot that was never set
            continue
        yield name, value


def class_path(kind: type) -> str:
    """Return ``module:qualname`` of a class, past any override of either."""
    module = vars(type)["__module__"].__get__(kind)
    qualname = vars(type)["__qualname__"].__get__(kind)
    return clean(f"{module if type(module) is str else '?'}:{qualname}", state_chars_max)


def loaded_class(path: str) -> type | None:
    """Return the class named ``module:qualname`` when it is loaded, else None.

    Only dicts are looked into: a module's ``__getattr__`` and a lazy module's attributes would
    import on being asked.
    """
    module_name, _, qualname = path.partition(":")
    found: object = sys.modules.get(module_name)
    try:
        names = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return None
    for part in qualname.split("."):
        found = names.get(part)
        if not isinstance(found, type):
            return None
        names = vars(found)
    return found if isinstance(found, type) else None


def clean(text: str, chars_max: int) -> str:
    """Return text that every store can hold: no lone surrogates, not longer than the limit."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= chars_max:
        return text
    mark = f"... ({len(text)} characters)"
    return text[: chars_max - len(mark)] + mark


# --- to tagged JSON -------------------------------------------------------------------------------


@dataclass(slots=True)
class StateWriter:
    """Writes the values of one exception, within one limit on the size of them all.

    ``members`` gives the place in its group of each member, by the member's ``id``.
    """

    members: dict[int, int]
    chars_left: int = state_chars_max

    def plain(self, value: Any, path: str, depth: int = 0) -> Json:
        """Return ``value`` as tagged JSON; raises NotPlain when it would come back different."""
        self.spend(value_chars_min, path)
        kind = type(value)
        if value is None or kind is bool:
            return value  # type: ignore[no-any-return]
        if kind is str:
            return self.string(value, path)
        if kind is int or kind is float:
            return number(value, path)
        if kind in {list, tuple, dict}:
            if depth >= value_depth_max:
                raise NotPlain(f"{path} is nested deeper than {value_depth_max}")
            return self.container(value, path, depth + 1)
        if kind is bytes:
            return tagged("bytes", self.text(b64encode(value).decode("ascii"), path))
        if issubclass(kind, Enum) and issubclass(kind, str):
            content = object.__getattribute__(value, "_value_")
            return tagged("enum", class_path(kind), self.key(content, path))
        if id(value) in self.members:
            return tagged("member", self.members[id(value)])
        raise NotPlain(f"{path} is of type {class_path(kind)}, which is not JSON")

    def container(self, value: Any, path: str, depth: int) -> Json:
        """Return a list, tuple or dict, item by item."""
        if type(value) is not dict:
            items = [self.plain(item, path, depth) for item in value]
            return items if type(value) is list else tagged("tuple", items)
        pairs = {self.key(k, path): self.plain(item, path, depth) for k, item in value.items()}
        return tagged("object", [[k, v] for k, v in pairs.items()]) if TAG in pairs else pairs

    def string(self, value: str, path: str) -> Json:
        """Return a str, tagged when it holds lone surrogates: a UnicodeEncodeError does."""
        if is_unicode(value):
            return self.text(value, path)
        raw = b64encode(value.encode("utf-8", "surrogatepass"))
        return tagged("surrogates", self.text(raw.decode("ascii"), path))

    def key(self, value: object, path: str) -> str:
        """Return what names an item, an attribute or an enum's member."""
        if type(value) is not str:
            raise NotPlain(f"{path} has a name that is not a str")
        return self.text(value, path)

    def text(self, value: str, path: str) -> str:
        """Return a str that UTF-8 can hold."""
        self.spend(len(value), path)
        if not is_unicode(value):
            raise NotPlain(f"{path} holds a lone surrogate")
        return value

    def spend(self, chars: int, path: str) -> None:
        """Count towards the limit."""
        self.chars_left -= chars
        if self.chars_left < 0:
            raise NotPlain(f"args and attributes exceed {state_chars_max} characters at {path}")


def is_unicode(text: str) -> bool:
    """Tell whether UTF-8 can hold a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def number(value: Any, path: str) -> Json:
    """Return an int or float that JSON can hold."""
    if isinstance(value, float) and not isfinite(value):
        raise NotPlain(f"{path} is {value!r}, which is not JSON")
    if isinstance(value, int) and value.bit_length() > int_bits_max:
        raise NotPlain(f"{path} is an int of more than {int_bits_max} bits")
    return value  # type: ignore[no-any-return]


def tagged(tag: str, *content: Json) -> dict[str, Json]:
    """Return a value JSON has no form for."""
    return {TAG: [tag, *content]}


# --- from tagged JSON -----------------------------------------------------------------------------


def restore(plain: Json, members: Sequence[object]) -> Any:
    """Return the value that ``StateWriter.plain`` wrote, built anew.

    Raises JournalError for a malformed tag, UnknownValueType for an enum that is not loaded.
    """
    if isinstance(plain, list):
        return [restore(item, members) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if TAG not in plain:
        return {key: restore(item, members) for key, item in plain.items()}
    match plain[TAG]:
        case ["tuple", list(items)]:
            return tuple(restore(item, members) for item in items)
        case ["object", list(pairs)]:
            return {key: restore(item, members) for key, item in map(pair, pairs)}
        case ["bytes", str(text)]:
            return unbase64(text)
        case ["surrogates", str(text)]:
            return with_surrogates(unbase64(text))
        case ["enum", str(path), str(value)]:
            return enum_member(path, value)
        case ["member", int(place)] if 0 <= place < len(members):
            return members[place]
        case _:
            raise malformed("a value has a tag that says nothing")


def pair(raw: Json) -> tuple[str, Json]:
    """Return the key and the value of one item of an escaped dict."""
    match raw:
        case [str(key), value]:
            return key, value
        case _:
            raise malformed("an escaped dict holds something else than pairs")


def unbase64(text: str) -> bytes:
    """Return the bytes of a base64 text."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise malformed("bytes are not base64") from None


def with_surrogates(raw: bytes) -> str:
    """Return a str that UTF-8 cannot hold."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise malformed("a text with surrogates is not one") from None


def enum_member(path: str, value: str) -> Enum:
    """Return a member by value; ``_missing_`` is not asked, it is the user's code."""
    kind = loaded_class(path)
    if kind is not None and issubclass(kind, Enum):
        for member in kind:
            if member.value == value:
                return member
    raise UnknownValueType(f"the enum {path} is not loaded, or has no member {value!r}")


def check_tags(plain: Json, members: Sequence[object]) -> None:
    """Raise JournalError unless ``plain`` can be restored, loaded enums apart."""
    with suppress(UnknownValueType):
        restore(plain, members)


def is_json(value: object, depth: int = 0) -> bool:
    """Tell whether a value read from a journal is JSON of a bearable depth."""
    if isinstance(value, float):
        return isfinite(value)
    if value is None or isinstance(value, str | int):
        return True
    if depth > 4 * value_depth_max:  # a tag adds a level or two to each one of the user's
        return False
    if isinstance(value, list):
        return all(is_json(item, depth + 1) for item in value)
    return isinstance(value, dict) and all(
        type(key) is str and is_json(item, depth + 1) for key, item in value.items()
    )


def malformed(why: str) -> JournalError:
    """Return the error of a failure record that this library did not write."""
    return JournalError(
        f"a failure record is malformed: {why}", hint="Restore the store from a backup"
    )
