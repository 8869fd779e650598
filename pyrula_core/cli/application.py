"""Brings the user's module of a run, where its values need one: a wrapped graph's have a codec.

Owns the words for a module that is missing or is not the right one. Must never import what the
person did not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyrula_core.cli.payloads import PLAIN_JSON
from pyrula_core.cli.target import load_target
from pyrula_core.errors import NotRegisteredError
from pyrula_core.events import Event
from pyrula_core.model import RunRow

if TYPE_CHECKING:
    from pyrula_core.values import ValueCodec

__all__ = ["check_codec", "codec_in", "foreign_codec"]


def foreign_codec(events: Sequence[Event]) -> str | None:
    """Return the codec of a journal's values, None where they are plain JSON."""
    codecs = (event.payload.codec for event in events if event.payload is not None)
    return next((codec for codec in codecs if codec != PLAIN_JSON), None)


def codec_in(app: str, row: RunRow, events: Sequence[Event]) -> ValueCodec | None:
    """Import ``app`` and return the codec that it registers for a run; None for plain JSON.

    Raises CallerError with code ``target_not_found``, and NotRegisteredError when it is another
    graph's module.
    """
    load_target(app)
    # Imported here: listings do not need pydantic, which comes along and is slow to import.
    from pyrula_core.registry import REGISTRY

    definition = REGISTRY.find(row.key.name, row.version)
    codec = None if definition is None else definition.input_codec
    check_codec(row, events, codec, app=app)
    return codec


def check_codec(
    row: RunRow, events: Sequence[Event], codec: ValueCodec | None, *, app: str | None
) -> None:
    """Raise NotRegisteredError when a run's values are not plain JSON nor of ``codec``."""
    recorded = foreign_codec(events)
    if recorded is None or (codec is not None and codec.name == recorded):
        return
    what = f"{row.key.name!r} version {row.version!r}"
    if app is None:
        raise NotRegisteredError(
            f"the values of run {row.key} belong to a wrapped graph, {what}, "
            f"which is not loaded (codec {recorded!r})",
            hint="Name the module that wraps it, the one that calls durable(): --app my_agent",
        )
    raise NotRegisteredError(
        f"{app!r} does not wrap a graph as {what}, to which run {row.key} belongs "
        f"(codec {recorded!r})",
        hint="Name the module that calls durable() with this name and version: --app my_agent",
    )
