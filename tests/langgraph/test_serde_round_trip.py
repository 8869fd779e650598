from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address, ip_network
from pathlib import Path, PurePosixPath, PureWindowsPath
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import TypeAdapter

from pyrula_core.errors import (
    RecordedError,
    ResultNotSerializable,
)
from pyrula_langgraph.serde import GraphSerde
from tests.langgraph.sample_types import (
    Animal,
    Colour,
    Dog,
    Frozen,
    Name,
    Open,
    Outer,
    Point,
    Rights,
    Zoo,
    item,
    through,
)

PARIS = datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1)

VALUES = [
    *(None, True, False, 0, -1, 2**63, 2**64, -(2**63) - 1, 10**300, 1.5, -0.0, float("inf")),
    *("", "a", "zażółć", "\ud800 lone", "nul\0", b"", b"bytes", bytearray(b"array"), 1j),
    *([], [1, [2, (3,)]], (), (1, (2,)), {}, {"a": {"b": ()}}, {"\ud800": 1, 1: 2, None: 3}),
    *({(1, "a"): [1], b"k": 2, Colour.RED: 3}, {"z": 1, "a": 2}, {2: "int", True: "bool"}),
    *({1, 2}, {(1, 2), "a"}, frozenset({1}), deque([1, 2], maxlen=2), deque()),
    *(OrderedDict(b=1, a=2), Counter("aab"), defaultdict(list, {"a": [1]}), defaultdict(None)),
    *(Fraction(1, 3), Decimal("1.10"), Decimal("-0"), UUID(int=5), range(1, 9, 2), slice(1, None)),
    *(PARIS, PARIS.replace(tzinfo=None), datetime(2025, 1, 1, tzinfo=UTC), date(2025, 1, 1)),
    *(datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=2), "here")), time(1, 2, 3, 4, fold=1)),
    *(UTC, timezone(timedelta(minutes=-90)), ZoneInfo("Asia/Tokyo"), timedelta(-1, 2, 3)),
    *(TypeAdapter(datetime).validate_python("2025-01-01T00:00:00+02:00"),),
    *(Path("/a/b"), Path("rel"), PurePosixPath("/x"), PureWindowsPath("c:\\x")),
    *(ip_address("1.2.3.4"), ip_network("fe80::/64"), re.compile("a+", re.IGNORECASE)),
    *(re.compile(rb"x"), type(None), int, dict, Colour, Zoo),
    *(Colour.RED, Colour.OTHER, Rights.READ | Rights.WRITE, Rights(0), Outer.Inner.A),
    *(Point(1, (2,)), item(), Frozen((1,)), Outer.Nested(2)),
    *(Zoo(animal=Dog(name="d", tricks=("sit",)), anything=item()), Open(x=1, more=(1,)), Animal()),
    *(
        HumanMessage("hi", id="1"),
        HumanMessageChunk("h"),
        SystemMessage("s"),
        RemoveMessage(id="1"),
    ),
    *(
        ChatMessage("c", role="r"),
        FunctionMessage("f", name="n"),
        Document("d", metadata={"a": (1,)}),
    ),
    AIMessage([{"type": "text", "text": "x"}], tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
    AIMessageChunk("x", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ToolMessage("t", tool_call_id="1", artifact=item(), status="error"),
    AIMessage("x").text,
    *(
        Command(update={"a": (1,)}, goto=[Send("n", {"b": {1}})], resume=None),
        Send("n", 1, timeout=3),
    ),
    *(Interrupt((1,), id="i"), (Interrupt("q", id="j"),), Overwrite([1]), _DeltaSnapshot([(1,)])),
]


IDS = [f"{place} {type(value).__name__}" for place, value in enumerate(VALUES)]


@pytest.mark.parametrize("value", VALUES, ids=IDS)
def test_report_46_what_is_read_equals_what_was_written_and_has_its_type(value):
    read = through(value)
    assert read == value
    assert type(read) is type(value)
    assert repr(read) == repr(value)
    assert through([value, {"k": value}]) == [value, {"k": value}]


@pytest.mark.parametrize("value", VALUES, ids=IDS)
def test_equal_values_have_equal_bytes_after_a_round_trip(value):
    serde = GraphSerde()
    assert serde.dumps_typed(through(value, serde)) == serde.dumps_typed(value)


def test_report_46_zone_fold_maxlen_order_and_private_attributes_survive():
    read = through(PARIS)
    assert (read.tzinfo.key, read.fold) == ("Europe/Paris", 1)
    assert through(deque([1], 5)).maxlen == 5
    assert list(through({"z": 1, "a": 2, 3: 4})) == ["z", "a", 3]
    zoo = Zoo(animal=Dog(name="d"))
    zoo._seen = 5
    read = through(zoo)
    assert read._seen == 5
    assert type(read.animal) is Dog
    assert read.model_fields_set == {"animal"}
    assert through(defaultdict(list))["new"] == []
    assert vars(through(item()))["extra"] == "set from outside"
    name = Name("text")
    name.note = "n"  # type: ignore[attr-defined]
    serde = GraphSerde(allow=[Name])
    assert through(name, serde).note == "n"


def test_nan_and_shared_sets_are_written_alike_in_every_process():
    serde = GraphSerde()
    assert repr(through(float("nan"))) == "nan"
    assert serde.dumps_typed({"b", "a", 3}) == serde.dumps_typed({3, "a", "b"})


def test_exceptions_come_back_as_exceptions():
    error = ValueError("no", 3)
    error.add_note("note")
    read = through({"error": error})["error"]
    assert type(read) is ValueError
    assert read.args == ("no", 3)
    assert read.__notes__ == ["note"]

    class Local(Exception):
        pass

    assert isinstance(through(Local("x")), RecordedError)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**99), 2**99)
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.text(st.characters(), max_size=12)
    | st.binary(max_size=12)
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.complex_numbers(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | st.timezones(), allow_imaginary=True)
)
hashables = st.recursive(
    scalars,
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=4,
)
everything = st.recursive(
    scalars | hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.tuples(inner)
        | st.sets(hashables, max_size=4)
        | st.builds(Point, st.integers(), inner)
        | st.builds(Frozen, inner)
        | st.builds(lambda x: Zoo(animal=Dog(name="d"), anything=x), inner)
        | st.builds(lambda x: ToolMessage("t", tool_call_id="i", artifact=x), inner)
        | st.builds(lambda x: Send("n", x), inner)
        | st.builds(lambda x: deque([x], 3), inner)
    ),
    max_leaves=8,
)


@given(everything)
@settings(max_examples=200, deadline=None)
def test_any_supported_value_comes_back_exactly(value):
    read = through(value)
    assert repr(read) == repr(value) or read == value
    assert type(read) is type(value)
    serde = GraphSerde()
    assert serde.dumps_typed(read) == serde.dumps_typed(value)


def test_numpy_values_keep_type_shape_order_and_stay_writeable():
    np = pytest.importorskip("numpy")
    arrays = [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["2025-01-01", "NaT"], "datetime64[ns]"),
        np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8", (2,))]),
        np.array(["a", "bc"]),
        np.zeros((0, 3), np.float16),
        np.array(5),
    ]
    for array in arrays:
        read = through({"a": array})["a"]
        assert read.dtype == array.dtype
        assert read.shape == array.shape
        assert read.flags.f_contiguous == array.flags.f_contiguous
        assert read.flags.writeable
        assert read.tobytes() == array.tobytes()
    for scalar in (np.float32(1.5), np.int64(3), np.bool_(True), np.datetime64("2025-01-01")):
        read = through(scalar)
        assert read == scalar
        assert type(read) is type(scalar)
    with pytest.raises(ResultNotSerializable, match="holds Python objects"):
        through(np.array([object()], dtype=object))
