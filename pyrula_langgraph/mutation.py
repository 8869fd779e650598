"""Notices that an object in a list was changed in place since it was recorded.

Owns the watch kept on each recorded object. LangGraph persists such changes when the channel is
written, so an identity cache alone would lose them; encoding every object anew at every step would
cost the square of the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import Any, Final

from pydantic import BaseModel

__all__ = ["FIXED", "OPAQUE", "Watch", "certainly_same", "probably_same", "watch"]

IMMUTABLE: Final = frozenset({str, bytes, int, float, bool, type(None), complex})
parts_max: Final = 200


@dataclass(frozen=True, slots=True)
class Watch:
    """A copy of an object's attributes.

    ``simple`` when all are plain: scalars, or lists and dicts of plain parts. Then the copy has
    containers of its own, and as long as it equals the object, the object is unchanged. (A 1 that
    was made True in place passes for unchanged until everything is verified.)
    """

    copy: dict[str, Any]
    simple: bool
    model: bool


FIXED: Final = Watch({}, simple=True, model=False)
"""The watch on a value that cannot change."""

OPAQUE: Final = Watch({}, simple=False, model=False)
"""The watch on a value that can change in ways not looked at."""


class NotPlain(Exception):
    """An attribute that cannot be copied cheaply."""


def watch(value: Any) -> Watch:
    """Return the watch to keep on a value that was just recorded."""
    kind = type(value)
    if kind in IMMUTABLE:
        return FIXED
    state = value if kind is dict else getattr(value, "__dict__", None)
    if type(state) is not dict:
        return OPAQUE
    model = isinstance(value, BaseModel)
    if model and (value.__pydantic_extra__ or value.__pydantic_private__):
        return Watch(dict(state), simple=False, model=True)
    room = parts_max
    copy: dict[str, Any] = {}
    try:
        for name, item in state.items():
            if type(item) in IMMUTABLE:
                copy[name] = item
            else:
                copy[name], room = plain_copy(item, room)
    except NotPlain:
        return Watch(dict(state), simple=False, model=model)
    return Watch(copy, simple=True, model=model)


def plain_copy(value: Any, room: int) -> tuple[Any, int]:
    """Return a copy of plain containers and how many more parts may be copied."""
    kind = type(value)
    if kind in IMMUTABLE:
        return value, room
    if room <= 0 or kind not in (dict, list):
        raise NotPlain
    room -= len(value)
    if kind is list:
        parts: list[Any] = []
        for item in value:
            copy, room = plain_copy(item, room)
            parts.append(copy)
        return parts, room
    fields: dict[Any, Any] = {}
    for key, item in value.items():
        if type(key) not in IMMUTABLE:
            raise NotPlain
        fields[key], room = plain_copy(item, room)
    return fields, room


def certainly_same(value: Any, kept: Watch) -> bool:
    """Return whether the value provably has not changed; False means: encode it and see."""
    if kept is FIXED:
        return True
    if not kept.simple:
        return False
    state = value if type(value) is dict else value.__dict__
    return bool(state == kept.copy) and not (kept.model and value.__pydantic_extra__)


def probably_same(value: Any, kept: Watch) -> bool:
    """Return False when one of the value's attributes is another object than it was."""
    if kept.simple or kept is OPAQUE:
        return kept is OPAQUE or certainly_same(value, kept)
    state = value if type(value) is dict else value.__dict__
    return state.keys() == kept.copy.keys() and all(map(is_, state.values(), kept.copy.values()))
