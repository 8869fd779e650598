"""Digests a step's arguments, so that a replay notices when they changed.

The digest is the same in every process: no addresses, no hash seeds, no wall clock. What cannot be
looked into (an open connection, a function) counts by its type or its name. Must never do IO and
never call a user's ``__repr__``.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from pyrula_core.values import type_path

__all__ = ["fingerprint", "shape"]

digest_bytes: Final = 8
nodes_max: Final = 20_000
shape_chars_max: Final = 200

SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def fingerprint(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return 16 hex digits that stand for the arguments of a call."""
    if not kwargs and SCALARS.issuperset(map(type, args)):
        # Exact scalars have one way to be written down; the walk below costs several times more.
        text = repr(args).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=digest_bytes).hexdigest()
    digest = hashlib.blake2b(digest_size=digest_bytes)
    walk = _Walk(digest)
    walk.feed(args)
    walk.feed(kwargs)
    return digest.hexdigest()


class _Walk:
    """Feeds a value to a digest, piece by piece, up to ``nodes_max`` pieces."""

    def __init__(self, digest: Any) -> None:
        self.digest = digest
        self.nodes = 0

    def feed(self, value: Any) -> None:
        self.nodes += 1
        if self.nodes > nodes_max:
            return
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            text = f"{kind.__name__}:{value}".encode("utf-8", "surrogatepass")
            self.digest.update(b"%d:%b" % (len(text), text))
        elif kind is bytes:
            self.digest.update(b"b%d:%b" % (len(value), value))
        elif isinstance(value, Enum):
            self.digest.update(f"{type_path(kind)}.{value.name};".encode())
        elif isinstance(value, (list, tuple)):
            self.feed_all("[", value)
        elif isinstance(value, (set, frozenset)):
            self.feed_all("{", sorted(fingerprint((item,), {}) for item in value))
        elif isinstance(value, Mapping):
            self.feed_all("(", (part for pair in value.items() for part in pair))
        else:
            self.feed_object(value)

    def feed_all(self, mark: str, items: Iterable[Any]) -> None:
        self.digest.update(mark.encode())
        for item in items:
            self.feed(item)
        self.digest.update(b";")

    def feed_object(self, value: Any) -> None:
        self.digest.update(type_path(type(value)).encode() + b";")
        if isinstance(value, BaseModel):
            self.feed(dict(value))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self.feed([getattr(value, field.name, None) for field in dataclasses.fields(value)])
        elif hasattr(value, "__qualname__"):
            self.digest.update(str(value.__qualname__).encode() + b";")


def shape(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the types and sizes of a call's arguments: ``str[6], limit=int``, never a value."""
    parts = [shape_of(value) for value in args]
    parts += [f"{name}={shape_of(value)}" for name, value in kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= shape_chars_max else text[: shape_chars_max - 1] + "…"


def shape_of(value: Any) -> str:
    """Return a value's type, with its length where it has one."""
    kind = type(value)
    if kind in (str, bytes, list, tuple, dict, set, frozenset):
        return f"{kind.__name__}[{len(value)}]"
    return getattr(value, "__qualname__", kind.__qualname__)
