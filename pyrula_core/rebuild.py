"""From a ``FailureRecord`` back to an exception that can be raised.

Owns the decision which class that is: the recorded one, or a ``RecordedError`` that stands in for
it. Never imports (a class is found only where it is loaded already), never calls the ``__init__``
or ``__new__`` of a user's class, and keeps the user's class hooks from running as well.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import BuiltinFunctionType
from typing import Any, Final

from pyrula_core.errors import PyrulaError, RecordedError
from pyrula_core.failure import (
    Cause,
    FailureRecord,
    capture,
    chain_of,
    notes_of,
    state_of,
    text_of,
)
from pyrula_core.failure_state import (
    fields_of,
    loaded_class,
    members_of,
    native,
    own_dict,
    restore,
)

__all__ = ["live", "rebuild"]

stand_in_classes_max: Final = 1_024


def live(exc: BaseException, *, traceback: bool = True) -> tuple[FailureRecord, BaseException]:
    """Return the record of ``exc`` and the exception that the live body must see.

    The rebuild is tried now, while the original is at hand. Unless type, ``str()``, args,
    attributes and notes all come back, the record is marked as not rebuildable, and this run sees
    the same stand-in that a replay will see.

    The exception returned is always the rebuilt one, never ``exc`` itself, and it carries the
    original's traceback. So the two runs agree by construction: also on the types of the causes, on
    state that no check can see, and on a list that the exception shared with its raiser. Raise it
    outside of the ``except`` block that caught ``exc``: Python would chain ``exc`` to it there.
    """
    record = verified(capture(exc, traceback=traceback), exc)
    seen = rebuild(record)
    lend_tracebacks(exc, seen)
    return record, seen


def rebuild(record: FailureRecord) -> BaseException:
    """Return the recorded exception, or a RecordedError where the record or this process says so.

    A stand-in has ``type_path`` and ``message``. It is also an instance of the original class if
    that is loaded, can be derived from and is no OSError.
    """
    members = [rebuild(member) for member in record.members]
    exc = faithful(record, members)
    if exc is None:  # not "or": an exception may define __len__
        exc = stand_in(record, members)
    if record.notes:
        own_dict(exc)["__notes__"] = list(record.notes)
    attach_causes(exc, record.causes)
    return exc


# --- at record time -------------------------------------------------------------------------------


def verified(record: FailureRecord, exc: BaseException) -> FailureRecord:
    """Return the record, marked as not rebuildable if trying shows that it is not."""
    pairs = zip(record.members, members_of(exc), strict=False)  # members may have been cut
    members = tuple(verified(member, original) for member, original in pairs)
    reason = record.reason
    if not all(member.rebuildable for member in members):
        reason = reason or "one of its members cannot be rebuilt"
    record = replace(record, members=members, rebuildable=not reason, reason=reason)
    reason = reason or difference(record, exc)
    return replace(record, rebuildable=not reason, reason=reason)


def difference(record: FailureRecord, exc: BaseException) -> str:
    """Say what a rebuilt exception lacks of the original; '' when nothing."""
    twin = rebuild(record)
    if type(twin) is not type(exc):
        return "its class cannot be found by its name, or cannot be filled without its __init__"
    if text_of(twin) != text_of(exc):
        return "its str() comes back different"
    if state_of(twin, members_of(twin)) != (record.args, record.attributes, ""):
        return "its args or attributes come back different"
    return "" if notes_of(twin) == record.notes else "its notes come back different"


def lend_tracebacks(exc: BaseException, seen: BaseException) -> None:
    """Let the rebuilt exception, its causes and its members show where they came from."""
    pairs = [(exc, seen)]
    pairs += [(a, b) for (a, _), (b, _) in zip(chain_of(exc), chain_of(seen), strict=False)]
    for original, twin in pairs:
        BaseException.with_traceback(twin, native(original, "__traceback__"))
    for original, twin in zip(members_of(exc), members_of(seen), strict=False):
        lend_tracebacks(original, twin)


# --- the class itself -----------------------------------------------------------------------------


def faithful(record: FailureRecord, members: Sequence[BaseException]) -> BaseException | None:
    """Return an instance of the recorded class, or None when it cannot be had."""
    kind = loaded_class(record.type_path)
    if not record.rebuildable or kind is None or not issubclass(kind, BaseException):
        return None
    try:
        exc = allocated(kind, record, members)
        fill(exc, record, members)
    except Exception:  # noqa: BLE001 - classes written in C refuse in ways of their own
        return None
    return exc if type(exc) is kind else None


def allocated(
    kind: type[BaseException], record: FailureRecord, members: Sequence[BaseException]
) -> BaseException:
    """Return a new instance on which no Python code of its class has run."""
    if issubclass(kind, BaseExceptionGroup):
        text: Any = record.attributes.get("message", record.message)
        return BaseExceptionGroup.__new__(kind, text, members)
    # The nearest __new__ that is written in C: one in Python is the user's, and wants arguments.
    for owner in kind.__mro__:
        new = vars(owner).get("__new__")
        if isinstance(new, BuiltinFunctionType):
            made: BaseException = new(kind)
            return made
    raise TypeError("BaseException itself has a __new__ in C")


def fill(exc: BaseException, record: FailureRecord, members: Sequence[BaseException]) -> None:
    """Put the recorded args and attributes where the class keeps them."""
    args = tuple(restore(plain, members) for plain in record.args)
    vars(BaseException)["args"].__set__(exc, args)
    fields = fields_of(type(exc))
    for name, plain in record.attributes.items():
        value = restore(plain, members)
        if name in fields:
            set_field(exc, fields[name], value)
        else:
            own_dict(exc)[name] = value


def set_field(exc: BaseException, descriptor: Any, value: object) -> None:
    """Set a slot or a field in C, unless it reads that way already.

    A field in C that was never set reads as None but is not the same as one set to None: an OSError
    whose filename was set to None shows it in its text.
    """
    try:
        current = descriptor.__get__(exc, type(exc))
    except AttributeError:
        pass
    else:
        if current is value or (type(current) is type(value) and current == value):
            return
    descriptor.__set__(exc, value)


def attach_causes(exc: BaseException, causes: Sequence[Cause]) -> None:
    """Chain stand-ins for the causes to an exception: only types and messages are recorded."""
    for cause in causes:
        link = stand_in(FailureRecord(cause.type_path, cause.message, rebuildable=False), ())
        name = "__cause__" if cause.explicit else "__context__"
        vars(BaseException)[name].__set__(exc, link)
        exc = link


# --- a stand-in -----------------------------------------------------------------------------------


def stand_in(record: FailureRecord, members: Sequence[BaseException]) -> RecordedError:
    """Return the RecordedError of a record, an instance of the original class where possible."""
    exc = combined(record, members)
    if exc is None:
        exc = RecordedError.__new__(RecordedError)
    RecordedError.__init__(exc, record.message, type_path=record.type_path)
    own_dict(exc).update(user_code=record.user_code, class_chain=record.class_chain)
    return exc


def combined(record: FailureRecord, members: Sequence[BaseException]) -> RecordedError | None:
    """Return an empty stand-in that is also an instance of the original class, or None."""
    original: Any = loaded_class(record.type_path)
    if original is None or not issubclass(original, BaseException):
        return None
    # A metaclass of the user's would run at the making of the class; ABCMeta is known to be tame.
    if type(original) not in {type, ABCMeta} or issubclass(original, (OSError, RecordedError)):
        return None
    kind = stand_in_class(original)
    try:
        made = None if kind is None else allocated(kind, record, members)
    except Exception:  # noqa: BLE001 - a group without members, a class in C that refuses
        return None
    return made if isinstance(made, RecordedError) else None


class StandIn(RecordedError):
    """What every combined class puts before the original's own behaviour."""

    def __init_subclass__(cls, **_: object) -> None:
        """Keep the original's hook from running: it may register the class somewhere."""

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"RecordedError({self.message!r}, type_path={self.type_path!r})"

    def __getattr__(self, name: str) -> Any:
        path = own_dict(self).get("type_path", "")
        raise AttributeError(
            f"{name!r} was not recorded: this stands in for a {path}, which cannot be rebuilt. "
            "Use .type_path and .message, or catch it inside the step"
        )


@lru_cache(maxsize=stand_in_classes_max)
def stand_in_class(original: Any) -> type[StandIn] | None:
    """Return the class that is both a RecordedError and ``original``, or None if there is none.

    It has the original's name, so that a traceback reads as it would have.
    """
    namespace: dict[str, Any] = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": StandIn.__doc__,
        # The original may define properties of these names, refuse to be set, or compare and hash
        # by attributes that are absent here.
        "message": "",
        "hint": "",
        "type_path": "",
        "code": original.code if issubclass(original, PyrulaError) else RecordedError.code,
        "__getattribute__": BaseException.__getattribute__,
        "__setattr__": BaseException.__setattr__,
        "__delattr__": BaseException.__delattr__,
        "__eq__": object.__eq__,
        "__hash__": object.__hash__,
    }
    try:
        return type(original.__name__, (StandIn, original), namespace)
    except TypeError:  # a final class, a layout that cannot be combined, an order of bases
        return None
