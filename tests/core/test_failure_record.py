"""The JSON form of a failure record, well-formed and malformed."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula_core.errors import (
    JournalError,
)
from pyrula_core.failure import FailureRecord, capture


def test_the_json_form_leaves_out_what_is_empty():
    assert capture(ValueError(), traceback=False).to_json() == {
        "type_path": "builtins:ValueError",
        "message": "",
        "rebuildable": True,
        "class_chain": ["builtins:ValueError"],
    }


def test_unknown_keys_are_ignored():
    raw = capture(ValueError("x")).to_json()
    assert FailureRecord.from_json({**raw, "newer": 1}) == FailureRecord.from_json(raw)


GOOD: dict[str, Any] = {"type_path": "builtins:ValueError", "message": "m", "rebuildable": True}


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        "text",
        {},
        {"type_path": "a:b", "message": "m"},
        {**GOOD, "type_path": None},
        {**GOOD, "message": 1},
        {**GOOD, "rebuildable": 1},
        {**GOOD, "reason": []},
        {**GOOD, "args": {}},
        {**GOOD, "args": [object()]},
        {**GOOD, "args": [float("nan")]},
        {**GOOD, "args": [{"$pyrula": []}]},
        {**GOOD, "args": [{"$pyrula": ["eval", "1"]}]},
        {**GOOD, "args": [{"$pyrula": ["tuple", 1]}]},
        {**GOOD, "args": [{"$pyrula": ["bytes", "***"]}]},
        {**GOOD, "args": [{"$pyrula": ["surrogates", "/w=="]}]},
        {**GOOD, "args": [{"$pyrula": ["member", 0]}]},
        {**GOOD, "args": [{"$pyrula": ["object", [["a"]]]}]},
        {**GOOD, "attributes": []},
        {**GOOD, "attributes": {1: 2}},
        {**GOOD, "notes": [1]},
        {**GOOD, "notes": "text"},
        {**GOOD, "causes": [["a"]]},
        {**GOOD, "causes": [{"type_path": "a"}]},
        {**GOOD, "members": [1]},
        {**GOOD, "members": {}},
        {**GOOD, "class_chain": [None]},
        {**GOOD, "user_code": 1},
        {**GOOD, "traceback": 1},
    ],
)
def test_a_malformed_record_is_a_journal_error(raw):
    with pytest.raises(JournalError, match="a failure record is malformed"):
        FailureRecord.from_json(raw)


def test_a_record_nested_without_end_is_a_journal_error():
    raw: dict[str, Any] = dict(GOOD)
    value: list[Any] = []
    for _ in range(10_000):
        raw = {**GOOD, "members": [raw]}
        value = [value]
    for bad in (raw, {**GOOD, "args": [value]}):
        with pytest.raises(JournalError):
            FailureRecord.from_json(bad)
