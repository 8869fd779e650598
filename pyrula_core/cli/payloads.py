"""Shows recorded values as far as a capture level allows.

Owns what each level means on the command line: ``none`` shows codec and size, ``shape`` and
``redacted`` types and sizes, ``full`` the value; ``redacted`` also shows what a run asks a person,
who could not answer otherwise. Must never build a user's object: JSON is read as plain JSON, and
what another codec wrote stays bytes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyrula_core.cli.text import clipped, one_line, size
from pyrula_core.events import Payload
from pyrula_core.model import Capture

__all__ = ["payload_document", "payload_text", "question_document"]

# The name of the core's own codec, which is not imported: it would bring pydantic to every listing.
PLAIN_JSON: Final = "json/1"
value_chars_max: Final = 300
members_shown_max: Final = 8


def payload_text(payload: Payload | None, capture: Capture) -> str:
    """Return a value for a table: itself, its shape, or its codec and size."""
    document = payload_document(payload, capture)
    if document is None:
        return ""
    if "value" in document:
        return clipped(one_line(document["value"]), value_chars_max)
    if "shape" in document:
        return str(document["shape"])
    return f"{document['codec']}, {size(document['bytes'])}"


def question_document(payload: Payload | None, capture: Capture) -> dict[str, Any] | None:
    """Return what a run asks a person."""
    return payload_document(payload, Capture.FULL if capture is Capture.REDACTED else capture)


def payload_document(payload: Payload | None, capture: Capture) -> dict[str, Any] | None:
    """Return a value's codec and size, with its ``shape`` and its ``value`` where these are shown.

    There is no ``shape`` for a codec that is not JSON, nor for damaged JSON.
    """
    if payload is None:
        return None
    document: dict[str, Any] = {"codec": payload.codec, "bytes": len(payload.body)}
    if capture is Capture.NONE or payload.codec != PLAIN_JSON:
        return document
    try:
        plain = json.loads(payload.body)
    except (ValueError, RecursionError):
        return document
    document["shape"] = shape_of(plain)
    if capture is Capture.FULL:
        document["value"] = plain
    return document


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
