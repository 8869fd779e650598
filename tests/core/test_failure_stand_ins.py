"""Exceptions that cannot be rebuilt: what is raised in their place, live and replayed."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from pyrula_core import failure_state
from pyrula_core.errors import (
    Poison,
    RecordedError,
)
from pyrula_core.failure import FailureRecord
from pyrula_core.rebuild import live, rebuild
from tests.core import failing
from tests.core.failing import (
    Colour,
    Concrete,
    ErrorMembers,
    Formatting,
    Kind,
    RandomText,
    Tagged,
    UserMeta,
    WithLock,
    WithMeta,
    both,
)


def test_a_stand_in_is_caught_by_the_original_class_and_lacks_its_attributes():
    _, seen = both(Tagged(threading.Lock()))
    with pytest.raises(Tagged) as caught:
        raise seen
    assert not hasattr(caught.value, "value")
    with pytest.raises(AttributeError, match="'value' was not recorded"):
        _ = caught.value.value
    assert repr(seen) == f"RecordedError('tagged', type_path='{failing.__name__}:Tagged')"
    assert type(seen).__name__ == "Tagged"


def test_a_stand_in_is_not_spoiled_by_what_the_original_overrides():
    before = len(WithLock.registered)
    first = both(WithLock("a", threading.Lock()))[1]
    second = both(WithLock("a", threading.Lock()))[1]
    assert type(first) is type(second)
    assert first == first  # noqa: PLR0124
    assert first != second
    assert len({first, second}) == 2
    assert first.hint == ""
    assert len(WithLock.registered) == before


def test_the_class_of_a_stand_in_is_made_once():
    kinds = {type(both(Tagged(threading.Lock()))[1]) for _ in range(3)}
    assert len(kinds) == 1


def test_a_class_with_a_metaclass_of_its_own_gets_a_plain_stand_in():
    error = WithMeta()
    error.lock = threading.Lock()
    assert type(both(error)[1]) is RecordedError
    assert UserMeta.made == ["WithMeta"]


def test_an_abstract_class_can_be_stood_in_for():
    _, seen = both(Concrete(threading.Lock()))
    assert isinstance(seen, Concrete)
    assert isinstance(seen, RecordedError)


def test_an_os_error_gets_a_plain_stand_in():
    error = ConnectionError("reset")
    error.socket = threading.Lock()
    _, seen = both(error)
    assert type(seen) is RecordedError
    assert seen.type_path == "builtins:ConnectionError"
    assert seen.message == "reset"


def test_a_class_defined_in_a_function_gets_a_plain_stand_in():
    class Local(ValueError):
        pass

    record, seen = both(Local("here"))
    assert type(seen) is RecordedError
    assert record.reason == "its class is defined inside a function"
    assert seen.type_path.endswith("<locals>.Local")
    assert record.class_chain[1] == "builtins:ValueError"


def test_a_class_that_another_one_has_replaced_is_not_mistaken_for_it(monkeypatch):
    error = Formatting("bob")
    replacement = type("Formatting", (Exception,), {"__module__": failing.__name__})
    monkeypatch.setattr(failing, "Formatting", replacement)
    record, seen = both(error)
    assert not record.rebuildable
    assert type(seen).__mro__[1].__name__ == "StandIn"


def test_an_enum_that_is_no_str_is_not_json():
    record, seen = both(Tagged(Kind.A))
    assert not record.rebuildable
    assert isinstance(seen, Tagged)


def test_an_exception_that_is_an_enum_member_is_survived():
    record, seen = both(ErrorMembers.BAD)
    assert not record.rebuildable
    assert type(seen) is RecordedError


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {1: "a"},
        {1, 2},
        object(),
        2**5000,
        ValueError("nested"),
        types.SimpleNamespace(),
        "x" * (failure_state.state_chars_max + 1),
        [[] for _ in range(failure_state.state_chars_max)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_cannot_hold_gives_a_stand_in(value):
    record, seen = both(Tagged(value))
    assert not record.rebuildable
    assert "attribute 'value'" in record.reason
    assert isinstance(seen, Tagged)
    assert "value" not in record.attributes


def test_a_value_that_contains_itself_gives_a_stand_in():
    circle: list[Any] = []
    circle.append(circle)
    assert not both(Tagged(circle))[0].rebuildable


def test_args_that_json_cannot_hold_give_a_stand_in_that_keeps_the_text():
    _, seen = both(ValueError("text", threading.Lock))
    assert isinstance(seen, ValueError)
    assert str(seen).startswith("('text', <built-in function")


def test_a_text_that_changes_each_time_gives_a_stand_in():
    record, seen = both(RandomText())
    assert record.reason == "its str() comes back different"
    assert str(seen) == record.message


def test_poison_that_cannot_be_rebuilt_keeps_its_codes():
    error = Poison("bad", code="b:1")
    error.lock = threading.Lock()
    _, seen = both(error)
    assert isinstance(seen, Poison)
    assert isinstance(seen, RecordedError)
    assert (seen.code, seen.user_code) == ("poison", "b:1")


def test_a_stand_in_that_is_recorded_again_keeps_the_original_type():
    first, seen = both(Tagged(threading.Lock()))
    second, seen_again = both(seen)
    assert second.type_path == first.type_path
    assert second.message == first.message
    assert second.class_chain == first.class_chain
    assert type(seen_again) is type(seen)


def test_a_group_with_a_member_that_cannot_be_rebuilt_still_serves_except_star():
    error = ExceptionGroup("g", [Tagged(threading.Lock()), ValueError(1)])
    record, seen = both(error)
    assert not record.rebuildable
    assert record.reason == "one of its members cannot be rebuilt"
    assert isinstance(seen, RecordedError)
    caught = []
    try:
        raise seen
    except* Tagged as group:
        caught += group.exceptions
    except* ValueError as group:
        caught += group.exceptions
    assert [type(member).__name__ for member in caught] == ["Tagged", "ValueError"]
    assert both(seen)[0].type_path == "builtins:ExceptionGroup"


# --- a process where less is loaded ---------------------------------------------------------------


def test_rebuilding_never_imports():
    assert "antigravity" not in sys.modules
    record = FailureRecord("antigravity:SomeError", "text", rebuildable=True)
    assert type(rebuild(record)) is RecordedError
    assert "antigravity" not in sys.modules


def test_looking_for_a_class_does_not_ask_a_lazy_module(monkeypatch):
    lazy = types.ModuleType("lazy_module")
    asked: list[str] = []
    lazy.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    assert type(rebuild(FailureRecord("lazy_module:Error", "", rebuildable=True))) is RecordedError
    assert asked == []


@pytest.mark.parametrize(
    "path",
    [
        "builtins:int",
        "builtins:print",
        "builtins:object.__class__",
        "builtins:",
        "",
        ":",
        "no_such_module:E",
        "builtins:NoSuchError",
        "builtins:ValueError.args",
        "sys:modules",
        "os:system",
    ],
)
def test_a_type_path_that_names_no_exception_class_gives_a_plain_stand_in(path):
    seen = rebuild(FailureRecord(path, "text", rebuildable=True))
    assert type(seen) is RecordedError
    assert (seen.type_path, str(seen)) == (path, "text")


def test_an_enum_that_is_no_longer_loaded_gives_a_stand_in(monkeypatch):
    record, _ = live(Tagged(Colour.RED))
    monkeypatch.delattr(failing, "Colour")
    assert isinstance(rebuild(record), RecordedError)


def test_an_attribute_that_became_a_read_only_field_gives_a_stand_in():
    record = FailureRecord(
        "builtins:UnicodeDecodeError", "text", rebuildable=True, attributes={"start": "no int"}
    )
    assert isinstance(rebuild(record), RecordedError)
