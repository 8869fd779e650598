"""How values of the standard library and of LangGraph become plain parts, and come back.

Owns one table: a type, the tag it is stored under, and two functions that undo each other. Nothing
here looks a type up by a stored name.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from langgraph.types import Send
from pydantic_core import TzInfo

from pyrula_langgraph.serde_types import Refusal, type_path_of

__all__ = ["FACTORIES", "PLAIN_CLASSES", "SIMPLE", "SIMPLE_BY_TAG", "Simple"]

ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Simple:
    """One type: ``parts`` makes plain parts of a value, ``build`` makes the value of the parts."""

    tag: str
    kind: type[Any]
    parts: Callable[[Any], Any]
    build: Callable[[Any], Any]


def zone_parts(zone: tzinfo | None) -> Any:
    """Return the plain form of a time zone; raises Refusal for one that has no stable name."""
    kind = type(zone)
    if zone is None:
        return None
    if kind is timezone:
        initial: tuple[Any, ...] = zone.__getinitargs__()  # type: ignore[attr-defined]
        return [initial[0] // MICROSECOND, *initial[1:]]
    if kind is ZoneInfo and getattr(zone, "key", None) is not None:
        return zone.key  # type: ignore[attr-defined]
    if kind is TzInfo:
        offset = zone.utcoffset(None)
        return {"s": 0 if offset is None else offset // timedelta(seconds=1)}
    raise Refusal(
        "its time zone has no name that survives: use zoneinfo.ZoneInfo(name) or datetime.timezone",
        type_path_of(kind),
    )


def zone(parts: Any) -> tzinfo | None:
    """Return the time zone of its plain form."""
    if parts is None:
        return None
    if isinstance(parts, str):
        if not ZONE_NAME.fullmatch(parts):
            raise ValueError(f"{parts!r} is no zone name")
        return ZoneInfo(parts)
    if isinstance(parts, dict):
        return TzInfo(parts["s"])
    return timezone(timedelta(microseconds=parts[0]), *parts[1:])


def datetime_parts(value: datetime) -> Any:
    text = value.replace(tzinfo=None, fold=0).isoformat()
    return [text, value.fold, zone_parts(value.tzinfo)]


def time_parts(value: time) -> Any:
    text = value.replace(tzinfo=None, fold=0).isoformat()
    return [text, value.fold, zone_parts(value.tzinfo)]


def pattern_parts(value: re.Pattern[Any]) -> Any:
    return [value.pattern, value.flags]


def send_parts(value: Send) -> Any:
    return {"node": value.node, "arg": value.arg, "timeout": value.timeout}


def send(parts: Any) -> Send:
    """Return the packet of its parts, as they were: nothing is coerced again."""
    value: Send = object.__new__(Send)
    for name in ("node", "arg", "timeout"):
        object.__setattr__(value, name, parts[name])
    return value


def same(value: Any) -> Any:
    return value


SIMPLE: Final[tuple[Simple, ...]] = (
    Simple("complex", complex, lambda v: [v.real, v.imag], lambda p: complex(*p)),
    Simple("fraction", Fraction, lambda v: [v.numerator, v.denominator], lambda p: Fraction(*p)),
    Simple("decimal", Decimal, str, Decimal),
    Simple("uuid", UUID, lambda v: v.bytes, lambda p: UUID(bytes=p)),
    Simple(
        "datetime",
        datetime,
        datetime_parts,
        lambda p: datetime.fromisoformat(p[0]).replace(fold=p[1], tzinfo=zone(p[2])),
    ),
    Simple("date", date, date.isoformat, date.fromisoformat),
    Simple(
        "time",
        time,
        time_parts,
        lambda p: time.fromisoformat(p[0]).replace(fold=p[1], tzinfo=zone(p[2])),
    ),
    Simple(
        "timedelta",
        timedelta,
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda p: timedelta(*p),
    ),
    Simple("timezone", timezone, zone_parts, zone),
    Simple("zoneinfo", ZoneInfo, zone_parts, zone),
    Simple("tzinfo", TzInfo, zone_parts, zone),
    Simple("path", type(Path()), str, Path),
    Simple("posixpath", PurePosixPath, str, PurePosixPath),
    Simple("windowspath", PureWindowsPath, str, PureWindowsPath),
    *(
        Simple(kind.__name__, kind, str, kind)
        for kind in (
            IPv4Address,
            IPv4Interface,
            IPv4Network,
            IPv6Address,
            IPv6Interface,
            IPv6Network,
        )
    ),
    Simple("range", range, lambda v: [v.start, v.stop, v.step], lambda p: range(*p)),
    Simple("slice", slice, lambda v: [v.start, v.stop, v.step], lambda p: slice(*p)),
    Simple("pattern", re.Pattern, pattern_parts, lambda p: re.compile(p[0], p[1])),
    Simple("bytearray", bytearray, bytes, bytearray),
    Simple("tuple", tuple, list, tuple),
    Simple("deque", deque, lambda v: [v.maxlen, list(v)], lambda p: deque(p[1], p[0])),
    Simple("ordered", OrderedDict, dict, OrderedDict),
    Simple("counter", Counter, dict, Counter),
    Simple("send", Send, send_parts, send),
)

SIMPLE_BY_TAG: Final[dict[str, Simple]] = {simple.tag: simple for simple in SIMPLE}

FACTORIES: Final[dict[str, Callable[[], Any] | None]] = {
    "": None,
    **{kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple, bytes)},
    **{kind.__name__: kind for kind in (frozenset, deque, OrderedDict, Counter)},
}
"""What a defaultdict may make its missing values with."""

PLAIN_CLASSES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(object, type(None), bool, int, float, complex, str, bytes, bytearray),
        *(list, tuple, dict, set, frozenset, type, Exception),
        *(Decimal, Fraction, UUID, datetime, date, time, timedelta),
    )
}
"""Classes that may be recorded as values themselves."""
