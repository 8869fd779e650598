"""What is recorded of an exception: ``FailureRecord``, and ``capture``, which makes one.

Owns the JSON form of a failure and the limits on its size. Capturing runs no more of the user's
code than ``str(exc)``, survives an exception that resists being looked at, and never raises.
``pyrula_core.rebuild`` is the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from traceback import format_exception
from typing import Any, Final, TypeVar

from pyrula_core.errors import PyrulaError, RecordedError
from pyrula_core.failure_state import (
    Json,
    NotPlain,
    StateWriter,
    carried,
    check_tags,
    class_path,
    clean,
    is_json,
    malformed,
    members_of,
    native,
    own_dict,
)
from pyrula_core.user_code import check_user_code

__all__ = ["Cause", "FailureRecord", "capture", "chain_of", "notes_of", "state_of", "text_of"]

message_chars_max: Final = 16_384
traceback_chars_max: Final = 65_536
note_chars_max: Final = 4_096
notes_max: Final = 32
cause_depth_max: Final = 16
class_chain_max: Final = 64
group_members_max: Final = 256
group_depth_max: Final = 8

CHAIN_END: Final = (Exception, BaseException, object)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of a cause chain; ``explicit`` when it was named with ``raise ... from``."""

    type_path: str
    message: str
    explicit: bool


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """What the journal keeps of an exception.

    ``type_path`` is ``module:qualname``, ``message`` is ``str(exc)``. ``args`` and ``attributes``
    hold those values that JSON can hold, tagged; slots and the fields of built-in classes count as
    attributes (``errno`` and ``filename`` of an OSError, ``code`` of a SystemExit, ``message`` of a
    group). ``rebuildable`` says whether a replay raises the class itself or a RecordedError, and
    ``reason`` why not. ``class_chain`` is the MRO below Exception, ``user_code`` the code given to
    Transient, Poison or Fatal.
    """

    type_path: str
    message: str
    rebuildable: bool
    reason: str = ""
    args: tuple[Json, ...] = ()
    attributes: dict[str, Json] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    members: tuple[FailureRecord, ...] = ()
    class_chain: tuple[str, ...] = ()
    user_code: str | None = None
    traceback: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON; what is empty is left out."""
        optional: dict[str, Any] = {
            "reason": self.reason,
            "args": list(self.args),
            "attributes": dict(self.attributes),
            "notes": list(self.notes),
            "causes": [[c.type_path, c.message, c.explicit] for c in self.causes],
            "members": [member.to_json() for member in self.members],
            "class_chain": list(self.class_chain),
            "user_code": self.user_code,
            "traceback": self.traceback,
        }
        required = {
            "type_path": self.type_path,
            "message": self.message,
            "rebuildable": self.rebuildable,
        }
        return required | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_json(cls, raw: object) -> FailureRecord:
        """Return the record that ``to_json`` wrote; raises JournalError when it is malformed.

        Keys that are not known are ignored, as in every event.
        """
        return read_record(raw, 0)


def capture(exc: BaseException, *, traceback: bool = True) -> FailureRecord:
    """Return what can be recorded of ``exc``; never raises.

    ``rebuildable`` is here what can be told without trying; ``pyrula_core.rebuild.live`` tries.
    With ``traceback=False`` no formatted traceback is kept.
    """
    text = formatted_traceback(exc) if traceback else None
    return capture_one(exc, Room(group_members_max), depth=0, traceback=text)


# --- from an exception ----------------------------------------------------------------------------


@dataclass(slots=True)
class Room:
    """How many more members of nested exception groups one record may hold."""

    members_left: int


def capture_one(
    exc: BaseException, room: Room, *, depth: int, traceback: str | None
) -> FailureRecord:
    """Return the record of one exception, its group's members included."""
    text = text_of(exc)
    taken = taken_members(exc, room, depth)
    members = tuple(capture_one(m, room, depth=depth + 1, traceback=None) for m in taken)
    args, attributes, reason = state_of(exc, taken)
    if text is None:
        reason = "its str() raises"
    elif len(taken) < len(members_of(exc)):
        reason = f"it has more than {group_members_max} members or nests them too deeply"
    elif not all(member.rebuildable for member in members):
        reason = "one of its members cannot be rebuilt"
    return FailureRecord(
        type_path=path_of(exc),
        message=message_of(exc, text),
        rebuildable=not reason,
        reason=reason,
        args=args,
        attributes=attributes,
        notes=notes_of(exc),
        causes=tuple(Cause(path_of(c), message_of(c, text_of(c)), e) for c, e in chain_of(exc)),
        members=members,
        class_chain=class_chain_of(exc),
        user_code=user_code_of(exc),
        traceback=traceback,
    )


def text_of(exc: BaseException) -> str | None:
    """Return ``str(exc)``, or None when that raises."""
    try:
        return str.__str__(str(exc))
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return None


def message_of(exc: BaseException, text: str | None) -> str:
    """Return the text as it is recorded."""
    return clean(f"<str() of {path_of(exc)} failed>" if text is None else text, message_chars_max)


def stands_for(exc: BaseException) -> str:
    """Return the type path of the exception that a RecordedError stands in for, else ''."""
    recorded = issubclass(type(exc), RecordedError)
    found = own_dict(exc).get("type_path") if recorded else None
    return clean(found, message_chars_max) if isinstance(found, str) else ""


def path_of(exc: BaseException) -> str:
    """Return the type path of an exception, or of the one it stands in for."""
    return stands_for(exc) or class_path(type(exc))


def class_chain_of(exc: BaseException) -> tuple[str, ...]:
    """Return the type paths of the MRO below Exception."""
    if stands_for(exc):
        kept: tuple[str, ...] = own_dict(exc).get("class_chain", ())
        return kept or (stands_for(exc),)
    chain = type(exc).__mro__[:class_chain_max]
    return tuple(class_path(kind) for kind in chain if kind not in CHAIN_END)


def user_code_of(exc: BaseException) -> str | None:
    """Return the user code that one of this library's own errors carries."""
    ours = issubclass(type(exc), PyrulaError)
    try:
        return check_user_code(own_dict(exc).get("user_code") if ours else None)
    except ValueError:
        return None


def notes_of(exc: BaseException) -> tuple[str, ...]:
    """Return what ``add_note`` added."""
    notes = own_dict(exc).get("__notes__")
    texts = [n for n in notes if isinstance(n, str)] if isinstance(notes, list | tuple) else []
    return tuple(clean(text, note_chars_max) for text in texts[:notes_max])


def chain_of(exc: BaseException) -> list[tuple[BaseException, bool]]:
    """Return the causes of ``exc``, nearest first, each with whether it was named with ``from``."""
    found: list[tuple[BaseException, bool]] = []
    seen = {id(exc)}
    while len(found) < cause_depth_max:
        cause = native(exc, "__cause__")
        explicit = cause is not None
        if cause is None and not native(exc, "__suppress_context__"):
            cause = native(exc, "__context__")
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        found.append((cause, explicit))
        exc = cause
    return found


def taken_members(exc: BaseException, room: Room, depth: int) -> tuple[BaseException, ...]:
    """Return the members of a group that fit into the record, and use up their room."""
    taken = members_of(exc)[: room.members_left] if depth < group_depth_max else ()
    room.members_left -= len(taken)
    return taken


def formatted_traceback(exc: BaseException) -> str | None:
    """Return what Python would print for ``exc``, shortened in the middle."""
    try:
        text = "".join(format_exception(exc))
    except Exception:  # noqa: BLE001 - formatting calls into the exception
        return None
    if len(text) > traceback_chars_max:
        # The end names the error and the innermost frames, so it keeps most of the room.
        head, mark = traceback_chars_max // 4, "\n[...]\n"
        text = text[:head] + mark + text[head + len(mark) - traceback_chars_max :]
    return clean(text, traceback_chars_max)


def state_of(
    exc: BaseException, members: Sequence[BaseException]
) -> tuple[tuple[Json, ...], dict[str, Json], str]:
    """Return args and attributes as tagged JSON, and why they are incomplete ('' if whole).

    ``members`` are those of its group that are recorded, in their order.
    """
    if stands_for(exc):
        return (), {}, "it stands in for a recorded exception"
    writer = StateWriter({id(member): place for place, member in enumerate(members)})
    reason = "its class is defined inside a function" if "<locals>" in path_of(exc) else ""
    args: tuple[Json, ...] = ()
    attributes: dict[str, Json] = {}
    try:
        args = tuple(writer.plain(value, "args") for value in native(exc, "args"))
    except NotPlain as error:
        reason = reason or str(error)
    for name, value in carried(exc):
        # A dict of attributes may have any keys, with a __repr__ of their own.
        shown = clean(f"attribute {name!r}" if type(name) is str else "an attribute", 200)
        try:
            attributes[writer.key(name, shown)] = writer.plain(value, shown)
        except NotPlain as error:
            reason = reason or str(error)
    return args, attributes, reason


# --- from JSON ------------------------------------------------------------------------------------


def read_record(raw: object, depth: int) -> FailureRecord:
    """Return the record of parsed JSON."""
    if not isinstance(raw, dict) or depth > group_depth_max:
        raise malformed("it is not an object, or its members are nested too deeply")
    members = tuple(read_record(m, depth + 1) for m in read(raw, "members", list, []))
    args: list[Json] = read(raw, "args", list, [])
    attributes: dict[str, Json] = read(raw, "attributes", dict, {})
    if not is_json(args) or not is_json(attributes):
        raise malformed("its args or attributes are not JSON")
    for plain in (*args, *attributes.values()):
        check_tags(plain, members)
    return FailureRecord(
        type_path=read(raw, "type_path", str),
        message=read(raw, "message", str),
        rebuildable=read(raw, "rebuildable", bool),
        reason=read(raw, "reason", str, ""),
        args=tuple(args),
        attributes=attributes,
        notes=read_texts(raw, "notes"),
        causes=tuple(read_cause(cause) for cause in read(raw, "causes", list, [])),
        members=members,
        class_chain=read_texts(raw, "class_chain"),
        user_code=read(raw, "user_code", str, "") or None,
        traceback=read(raw, "traceback", str, "") or None,
    )


def read(raw: dict[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """Return one field of the right type; without a default it must be there."""
    value = raw.get(name, default)
    if not isinstance(value, kind):
        raise malformed(f"its {name!r} is not a {kind.__name__}")
    return value


def read_texts(raw: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return one field that is a list of str."""
    texts: list[Any] = read(raw, name, list, [])
    if not all(isinstance(text, str) for text in texts):
        raise malformed(f"its {name!r} holds something else than str")
    return tuple(texts)


def read_cause(raw: object) -> Cause:
    """Return one link of a cause chain."""
    match raw:
        case [str(path), str(message), bool(explicit)]:
            return Cause(path, message, explicit)
        case _:
            raise malformed("a cause is not [type path, message, explicit]")
