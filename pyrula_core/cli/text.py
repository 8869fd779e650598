"""Small forms of text: times, ages, sizes, JSON, and text that is safe to show on a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["age", "clipped", "moment", "one_line", "printable", "size", "to_json"]

AGES: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
SIZES: Final = (("MB", 1_000_000), ("kB", 1_000))


def printable(text: str) -> str:
    """Return text on one line and without control characters, which could steer a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else escaped(each) for each in text)


def escaped(character: str) -> str:
    """Return an unprintable character as Python would write it."""
    return character.encode("unicode_escape").decode("ascii")


def clipped(text: str, chars_max: int) -> str:
    """Return text cut to a length, with dots where something was left out."""
    return text if len(text) <= chars_max else f"{text[: chars_max - 3]}..."


def age(seconds: float) -> str:
    """Return a time span in its largest whole unit: ``7s``, ``3m``, ``2h``, ``5d``."""
    for unit, length in AGES:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def moment(at: float) -> str:
    """Return a time in UTC, to the millisecond: ``2026-03-01 09:30:00.125Z``."""
    try:
        return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M:%S}.{int(at * 1000) % 1000:03}Z"
    except (OverflowError, ValueError, OSError):
        return f"{at}"  # A journal may hold any finite number.


def size(count: int) -> str:
    """Return a number of bytes: ``812 bytes``, ``4.5 kB``."""
    for unit, length in SIZES:
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} bytes"


def to_json(document: Any) -> str:
    """Return a document as JSON for people and programs, in ASCII."""
    return json.dumps(document, indent=2)


def one_line(value: Any) -> str:
    """Return a plain JSON value on one line."""
    return printable(json.dumps(value, ensure_ascii=False))
