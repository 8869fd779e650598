"""Shows recorded values as far as a capture level allows.

Owns what each level means on the command line: ``none`` shows codec and size, ``shape`` and
``redacted`` types and sizes, ``full`` the value; ``redacted`` also shows what a run asks a person,
who could not answer otherwise. JSON is read as plain JSON, without building a user's object; what
another codec wrote stays bytes unless the caller brings that codec.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyrula_core.cli.text import clipped, one_line, size
from pyrula_core.errors import PyrulaError
from pyrula_core.events import Payload
from pyrula_core.model import Capture

if TYPE_CHECKING:
    from pyrula_core.values import ValueCodec

__all__ = ["PLAIN_JSON", "payload_document", "payload_text", "question_document"]

# The name of the core's own codec, which is not imported: it would bring pydantic to every listing.
PLAIN_JSON: Final = "json/1"
value_chars_max: Final = 300
members_shown_max: Final = 8


def payload_text(payload: Payload | None, capture: Capture, codec: ValueCodec | None = None) -> str:
    """Return a value for a table: itself, its shape, or its codec and size."""
    document = payload_document(payload, capture, codec)
    if document is None:
        return ""
    if "value" in document:
        return clipped(one_line(document["value"]), value_chars_max)
    if "shape" in document:
        return str(document["shape"])
    return f"{document['codec']}, {size(document['bytes'])}"


def question_document(
    payload: Payload | None, capture: Capture, codec: ValueCodec | None = None
) -> dict[str, Any] | None:
    """Return what a run asks a person."""
    level = Capture.FULL if capture is Capture.REDACTED else capture
    return payload_document(payload, level, codec)


def payload_document(
    payload: Payload | None, capture: Capture, codec: ValueCodec | None = None
) -> dict[str, Any] | None:
    """Return a value's codec and size, with its ``shape`` and its ``value`` where these are shown.

    There is no ``shape`` for damaged JSON, nor for what is not JSON and not of ``codec``.
    """
    if payload is None:
        return None
    document: dict[str, Any] = {"codec": payload.codec, "bytes": len(payload.body)}
    if capture is Capture.NONE:
        return document
    try:
        plain = plain_value(payload, codec)
    except (ValueError, RecursionError, PyrulaError):
        return document
    document["shape"] = shape_of(plain)
    if capture is Capture.FULL:
        document["value"] = plain
    return document


def plain_value(payload: Payload, codec: ValueCodec | None) -> Any:
    """Return a payload's value as plain JSON; raises ValueError or PyrulaError."""
    if payload.codec == PLAIN_JSON:
        return json.loads(payload.body)
    if codec is None or codec.name != payload.codec:
        raise ValueError(payload.codec)
    # A graph's values may be of any type: what JSON lacks is shown as Python writes it.
    return json.loads(json.dumps(codec.decode(payload), default=repr, skipkeys=True))


def shape_of(plain: Any) -> str:
    """Return a JSON value's type and size: ``str[6]``, ``list[2](int, dict[1])``, ``shop:Order``.

    Keys of objects are contents too, and are not shown.
    """
    outer = outer_shape(plain)
    items = items_of(plain)
    if not items:
        return outer
    shown = [outer_shape(item) for item in items[:members_shown_max]]
    more = ["..."] if len(items) > members_shown_max else []
    return f"{outer}({', '.join(shown + more)})"


def outer_shape(plain: Any) -> str:
    """Return a value's type and size without its members."""
    match plain:
        case None:
            return "None"
        case {"$pyrula": ["tuple", list(items)]}:
            return f"tuple[{len(items)}]"
        case {"$pyrula": ["object", list(pairs)]}:
            return f"dict[{len(pairs)}]"
        case {"$pyrula": [str(), str(path), *_]}:
            return path
        case str() | list() | dict():
            return f"{type(plain).__name__}[{len(plain)}]"
        case _:
            return type(plain).__name__


def items_of(plain: Any) -> list[Any]:
    """Return the members of a list or tuple; nothing else has members to show."""
    match plain:
        case list(items) | {"$pyrula": ["tuple", list(items)]}:
            return items
        case _:
            return []
