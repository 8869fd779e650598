"""What is recorded of an exception, and that a replay raises what the first run saw."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_core import failure
from pyrula_core.errors import (
    Fatal,
    OutcomeUnknown,
    Poison,
    RecordedError,
    ResultNotSerializable,
    Transient,
)
from pyrula_core.failure import capture
from pyrula_core.rebuild import live
from tests.core import failing
from tests.core.failing import (
    Colour,
    Concrete,
    DataError,
    Formatting,
    FrozenError,
    Hostile,
    KeywordOnly,
    Kind,
    NoArguments,
    OwnGroup,
    OwnNew,
    Slotted,
    Tagged,
    TwoArguments,
    UserConnectionError,
    UserOSError,
    UserTimeout,
    WithLock,
    WithoutSuper,
    both,
    noted,
    provoked,
    raised,
    state,
)


def undecodable() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", b"\xff\x00", 0, 1, "invalid start byte")


REBUILT = [
    ValueError("plain"),
    ValueError(),
    Exception("two", 2, None, 1.5, True, [1, {"a": (2, (3,))}]),
    KeyError("key"),
    StopIteration(7),
    StopAsyncIteration(),
    SystemExit(3),
    ImportError("no module", name="n", path="p"),
    provoked("import there_is_no_such_module"),
    provoked("a b"),
    provoked("there_is_no_such_name"),
    provoked("object().missing"),
    provoked("1 / 0"),
    provoked("[][1]"),
    undecodable(),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    UnicodeTranslateError("x", 0, 1, "no"),
    OSError("only text"),
    OSError(5, "input/output"),
    FileNotFoundError(2, "missing", "a.txt"),
    OSError(errno.EXDEV, "cross-device", "a", None, "b"),
    PermissionError(13, "denied", b"raw"),
    BlockingIOError(errno.EAGAIN, "busy", 17),
    ConnectionResetError(104, "reset"),
    provoked("open('/there/is/no/such/file')"),
    TimeoutError(),
    TimeoutError("slow"),
    asyncio.CancelledError("stop"),
    asyncio.IncompleteReadError(b"ab", 5),
    UserOSError("db", port=5432),
    UserConnectionError("db"),
    UserTimeout(110, "late"),
    provoked("import json; json.loads('{')"),
    KeywordOnly(code=7),
    TwoArguments("ann", 3),
    NoArguments(),
    Formatting("bob"),
    WithoutSuper(1, 2),
    OwnNew(2, 3),
    Slotted(4),
    DataError(3),
    FrozenError(4, (1, 2)),
    Concrete(),
    Tagged({"$pyrula": 1, "b": [()]}),
    Tagged(Colour.RED),
    Tagged(b"\x00\xff"),
    Tagged("\ud800"),
    Tagged(2**200),
    noted(Formatting("eve")),
    ExceptionGroup("several", [ValueError(1), UserConnectionError("db"), KeyError("k")]),
    ExceptionGroup("outer", [ExceptionGroup("inner", [KeywordOnly(code=1)]), noted(OSError(2))]),
    BaseExceptionGroup("mixed", [KeyboardInterrupt(), ValueError()]),
    OwnGroup([ValueError("a"), TypeError("b")], 5),
    Transient("again", code="net:1"),
    Poison("never", code="bad_input"),
    Fatal("stop"),
    OutcomeUnknown("lost"),
    ResultNotSerializable("no", path="$.a", type_path="x:Y"),
    RecordedError("raised by a user"),
]


@pytest.mark.parametrize("exc", REBUILT, ids=lambda e: f"{type(e).__name__}-{str(e)[:20]!a}")
def test_an_exception_that_holds_json_comes_back_with_class_text_args_and_attributes(exc):
    record, seen = both(exc)
    assert record.rebuildable, record.reason
    assert type(seen) is type(exc)
    assert str(seen) == str(exc)
    if not isinstance(exc, BaseExceptionGroup):
        assert state(seen) == state(exc)
    else:
        assert seen.message == exc.message
        assert [str(m) for m in seen.exceptions] == [str(m) for m in exc.exceptions]


def test_report_73_a_keyword_only_init_is_rebuilt_without_being_called():
    _, seen = both(KeywordOnly(code=42))
    with pytest.raises(KeywordOnly) as caught:
        raise seen
    assert caught.value.code == 42


def test_report_73_a_formatting_init_does_not_double_its_text():
    assert str(both(Formatting("bob"))[1]) == "not found: bob"


def test_report_73_a_lock_gives_the_same_stand_in_live_and_replayed():
    record, seen = both(WithLock("busy", threading.Lock()))
    assert record.reason == "attribute 'lock' is of type _thread:lock, which is not JSON"
    assert isinstance(seen, RecordedError)
    assert isinstance(seen, WithLock)
    assert str(seen) == seen.message == "locked: busy True"


def test_report_74_the_record_holds_more_than_the_repr():
    record = capture(raised(KeywordOnly(code=1)))
    assert record.type_path == f"{failing.__name__}:KeywordOnly"
    assert record.message == "failed with 1"
    assert record.attributes == {"code": 1}
    assert record.class_chain == (f"{failing.__name__}:KeywordOnly",)
    assert "in raised" in (record.traceback or "")


def test_what_the_live_body_sees_is_a_copy_with_the_original_traceback():
    shared = [1]
    error = raised(Tagged(shared))
    _, seen = live(error)
    shared.append(2)
    assert seen is not error
    assert seen.value == [1]
    assert seen.__traceback__ is error.__traceback__


# --- causes and notes -----------------------------------------------------------------------------


def chained() -> BaseException:
    try:
        try:
            try:
                raise Formatting("inner")
            except Formatting as error:
                raise Tagged(threading.Lock()) from error
        except Tagged:
            raise KeyError("outer")  # noqa: B904 - the implicit context is the point
    except KeyError as error:
        return error


def test_the_cause_chain_keeps_types_and_texts():
    record, seen = both(chained())
    assert [(c.type_path.split(":")[1], c.message, c.explicit) for c in record.causes] == [
        ("Tagged", "tagged", False),
        ("Formatting", "not found: inner", True),
    ]
    assert isinstance(seen.__context__, Tagged)
    assert isinstance(seen.__context__.__cause__, Formatting)
    assert seen.__context__.__traceback__ is not None


def test_a_suppressed_context_is_not_recorded():
    error = ValueError("x")
    error.__context__ = KeyError("hidden")
    error.__suppress_context__ = True
    assert capture(error).causes == ()


def test_a_cycle_of_causes_is_survived():
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    record, _ = live(a)
    assert [cause.message for cause in record.causes] == ["b"]


def test_a_very_long_chain_is_cut():
    error = ValueError(0)
    first = error
    for n in range(10_000):
        error.__cause__ = error = ValueError(n)
    assert len(live(first)[0].causes) == failure.cause_depth_max


def test_notes_that_are_no_text_are_left_out():
    error = ValueError("x")
    error.__notes__ = ["a", 1, object(), "b"]  # type: ignore[attr-defined]
    record, seen = both(error)
    assert record.notes == ("a", "b")
    assert seen.__notes__ == ["a", "b"]


# --- limits and hostility -------------------------------------------------------------------------


def test_a_long_text_is_cut_and_the_exception_still_rebuilt():
    record, seen = both(ValueError("x" * 100_000))
    assert len(record.message) == failure.message_chars_max
    assert record.message.endswith("... (100000 characters)")
    assert len(str(seen)) == 100_000


def test_long_notes_are_cut_to_the_same_text_live_and_replayed():
    error = ValueError("x")
    for _ in range(100):
        error.add_note("n" * 100_000)
    record, _ = both(error)
    assert len(record.notes) == failure.notes_max
    assert {len(note) for note in record.notes} == {failure.note_chars_max}


def test_a_long_traceback_keeps_its_end():
    record = capture(raised(ValueError("y" * 200_000 + "the end")))
    assert len(record.traceback or "") == failure.traceback_chars_max
    assert (record.traceback or "").endswith("the end\n")


def test_the_traceback_is_left_out_on_demand():
    assert capture(raised(ValueError()), traceback=False).traceback is None
    assert live(raised(ValueError()), traceback=False)[0].traceback is None


def test_a_large_group_is_cut_and_stood_in_for():
    members = [ValueError(n) for n in range(failure.group_members_max + 1)]
    record, seen = both(ExceptionGroup("many", members))
    assert len(record.members) == failure.group_members_max
    assert not record.rebuildable
    assert isinstance(seen, ExceptionGroup)


def test_a_deep_group_is_cut_and_stood_in_for():
    error: Exception = ValueError()
    for _ in range(100):
        error = ExceptionGroup("deep", [error])
    record, _ = both(error)
    assert not record.rebuildable


def test_a_hostile_exception_is_survived():
    record, seen = live(raised(Hostile()))
    assert record.message == f"<str() of {failing.__name__}:Hostile failed>"
    assert not record.rebuildable
    assert isinstance(seen, RecordedError)
    assert str(seen) == record.message
    assert repr(seen)


def test_lone_surrogates_reach_no_store():
    error = Tagged("x")
    error.__dict__["\ud801"] = 1
    error.add_note("\ud802")
    error.args = ("\ud803",)
    record = capture(error)
    json.dumps(record.to_json(), ensure_ascii=False).encode("utf-8")
    assert record.message == "\\ud803"
    assert not record.rebuildable


def test_attribute_names_that_are_no_text_are_survived():
    error = Tagged("x")
    error.__dict__[Kind.A] = 1  # type: ignore[index]
    assert not both(error)[0].rebuildable


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary() | st.just(Colour.RED),
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text() | st.just("$pyrula"), inner, max_size=3),
    max_leaves=15,
)  # fmt: skip


def typed(value: Any) -> Any:
    """The value with its types, so that 1, 1.0 and True differ."""
    if isinstance(value, list | tuple):
        return [type(value), [typed(item) for item in value]]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return type(value), value


@given(args=st.lists(VALUES, max_size=3), value=VALUES)
def test_whatever_values_come_back_equal_and_of_the_same_type(args, value):
    error = Tagged(value)
    error.args = tuple(args)
    record, seen = both(error)
    assert record.rebuildable, record.reason
    assert typed(seen.args) == typed(error.args)
    assert typed(seen.value) == typed(value)
