from __future__ import annotations

import enum
import operator
import sys
import types
from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    ToolMessage,
)
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field, SecretStr

from pyrula_core.errors import (
    JournalError,
    JournalTooNew,
    NondeterminismError,
    NotRegisteredError,
    ResultNotSerializable,
)
from pyrula_langgraph.serde import GraphSerde
from pyrula_langgraph.serde_types import type_path_of
from pyrula_langgraph.serde_wire import Code
from tests.langgraph.sample_types import (
    Animal,
    Colour,
    Counts,
    Dog,
    Growing,
    Item,
    Name,
    Point,
    Strict,
    Weird,
    Zoo,
    item,
    through,
)

REFUSED = [
    (lambda: 1, "builtins:function"),
    (object(), "builtins:object"),
    (Weird(), type_path_of(Weird)),
    (Counts(3), type_path_of(Counts)),
    (Name("x"), type_path_of(Name)),
    ((n for n in range(3)), "builtins:generator"),
    (sys, "builtins:module"),
    (memoryview(b"x"), "builtins:memoryview"),
    (SecretStr("s"), "pydantic.types:SecretStr"),
    (defaultdict(lambda: 1), "collections:defaultdict"),
    (list[int], "types:GenericAlias"),
    (..., "builtins:ellipsis"),
]


@pytest.mark.parametrize("value,type_path", REFUSED, ids=[path for _, path in REFUSED])
def test_report_45_what_cannot_be_recorded_exactly_is_refused_with_path_and_type(value, type_path):
    message = ToolMessage("t", tool_call_id="1", artifact={"deep": [1, value]})
    with pytest.raises(ResultNotSerializable) as caught:
        through({"messages": [0, message], "key with space": 1})
    assert caught.value.path == "$.messages[1].artifact.deep[1]"
    assert caught.value.type_path == type_path
    assert type_path in str(caught.value)
    with pytest.raises(ResultNotSerializable) as caught:
        through({"key with space": {1: (value,)}})
    assert caught.value.path.startswith("$['key with space'][1]")


def test_report_49_a_secret_is_refused_with_what_to_do_instead():
    with pytest.raises(ResultNotSerializable, match="never written in clear: keep it out"):
        through(Zoo(animal=Animal(), anything=SecretStr("token")))


def test_what_refers_to_itself_or_is_too_deep_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    model = Zoo(animal=Animal())
    model.anything = model
    deep: Any = 1
    for _ in range(300):
        deep = (deep,)
    for value in (loop, model, deep):
        with pytest.raises(ResultNotSerializable, match="nested more than"):
            through(value)


def local_model() -> type[BaseModel]:
    class Local(BaseModel):
        x: int

    return Local


def test_report_48_a_class_in_a_function_must_be_registered_and_then_works():
    kind = local_model()
    with pytest.raises(ResultNotSerializable, match=r"GraphSerde\(allow=\[\.\.\.\]\)"):
        through(kind(x=1))
    assert through(kind(x=1), GraphSerde(allow=[kind])) == kind(x=1)
    raw = GraphSerde(allow=[kind]).dumps_typed(kind(x=1))
    with pytest.raises(NotRegisteredError, match=r"local_model.<locals>.Local"):
        GraphSerde().loads_typed(raw)


def test_report_48_strict_allows_registered_types_only_and_never_changes_a_type():
    strict = GraphSerde(strict=True, allow=[Animal])
    assert through(Animal(name="a"), strict) == Animal(name="a")
    assert through(AIMessage("x"), strict) == AIMessage("x")
    for value in (Dog(), Colour.RED, item(), Point(1)):
        with pytest.raises(ResultNotSerializable, match="is not registered"):
            through(value, strict)
        raw = GraphSerde().dumps_typed(value)
        with pytest.raises(NotRegisteredError):
            strict.loads_typed(raw)
    with pytest.raises(TypeError, match="only dataclasses"):
        GraphSerde(allow=[Weird])


def test_reading_neither_validates_nor_calls_init():
    value = Strict.model_construct(x=1)
    assert through(value) == value
    calls: list[int] = []

    @dataclass
    class Loud:
        x: int

        def __post_init__(self) -> None:
            calls.append(self.x)

    serde = GraphSerde(allow=[Loud])
    assert through(Loud(1), serde) == Loud(1)
    assert calls == [1, 1]


def test_report_47_a_changed_class_is_an_error_unless_defaults_or_a_migration_fit(monkeypatch):
    serde = GraphSerde()
    model, data = serde.dumps_typed(Growing(x=3)), serde.dumps_typed(item())
    module = sys.modules[Item.__module__]

    class Grown(BaseModel):
        x: int = 1
        y: list[int] = Field(default_factory=list)

    class Demanding(BaseModel):
        x: int
        z: int

    class Renamed(BaseModel):
        new: int

    name = type_path_of(Growing)
    assert GraphSerde(renamed={name: Grown}).loads_typed(model) == Grown(x=3)
    with pytest.raises(NondeterminismError, match="Growing has changed") as caught:
        GraphSerde(renamed={name: Demanding}).loads_typed(model)
    assert (caught.value.recorded, caught.value.asked) == ("fields x", "fields x, z")
    with pytest.raises(NondeterminismError):
        GraphSerde(renamed={name: Renamed}).loads_typed(model)
    moved = {name: lambda fields: {"new": fields["x"]}}
    read = GraphSerde(renamed={name: Renamed}, migrations=moved).loads_typed(model)
    assert read == Renamed(new=3)
    monkeypatch.delattr(module, "Item")
    with pytest.raises(NotRegisteredError, match="Import the module"):
        serde2 = GraphSerde()
        serde2.loads_typed(data)


def named(code: int, name: str, *rest: Any) -> tuple[str, bytes]:
    body = ormsgpack.packb([name, *rest])
    return "pyrula", b"\x01" + ormsgpack.packb(ormsgpack.Ext(code, body))


def test_a_stored_name_imports_nothing_calls_nothing_and_follows_no_module(tmp_path, monkeypatch):
    (tmp_path / "tripwire.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    touched: list[str] = []
    module = types.ModuleType("lazy_module")
    module.__getattr__ = touched.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy_module", module)
    names = ["tripwire:X", "lazy_module:X", "os:system", "builtins:eval", "subprocess:Popen"]
    names += ["os:path.join", f"{__name__}:through", "pathlib:Path", ":", "", "a:b:c"]
    for name in names:
        for code, rest in (
            (Code.MODEL, ({}, 0, None, None)),
            (Code.DATACLASS, ({}, None)),
            (Code.NAMEDTUPLE, ({},)),
            (Code.ENUM, ("X",)),
            (Code.BASED, ("x", None)),
            (Code.CLASS, ()),
        ):
            with pytest.raises((NotRegisteredError, JournalError)):
                GraphSerde().loads_typed(named(code, name, *rest))
    assert "tripwire" not in sys.modules
    assert touched == []
    wrong_kind = named(Code.DATACLASS, type_path_of(Animal), {"name": "x"}, None)
    with pytest.raises(NotRegisteredError):
        GraphSerde().loads_typed(wrong_kind)


@given(st.binary(max_size=60), st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_a_value_or_a_typed_error(raw, code):
    for data in (raw, ormsgpack.packb(ormsgpack.Ext(code, raw))):
        try:
            GraphSerde().loads_typed(("pyrula", b"\x01" + data))
        except (JournalError, NotRegisteredError, NondeterminismError):
            continue


def test_another_codec_or_a_newer_format_is_told_apart():
    with pytest.raises(JournalError, match="in codec 'msgpack'"):
        GraphSerde().loads_typed(("msgpack", b"\x01x"))
    with pytest.raises(JournalTooNew, match="Upgrade"):
        GraphSerde().loads_typed(("pyrula", b"\x63x"))


def test_a_graphs_own_types_are_collected_from_every_schema_and_nested_graph():
    kinds: dict[str, Any] = {}
    for name in ("State_", "Input_", "Output_", "Context_", "Node_", "Sub_"):
        kinds[name] = type(name, (BaseModel,), {"__annotations__": {"x": int}, "x": 1})
        kinds[name].__qualname__ = f"local.<locals>.{name}"

    class Kind(enum.Enum):
        A = 1

    listed = kinds["State_"]
    fields = {"a": Annotated[list[listed] | None, operator.add], "b": dict[str, tuple[Kind, ...]]}
    state: Any = TypedDict("State", fields, total=False)  # type: ignore[operator]
    sub = StateGraph(kinds["Sub_"])
    sub.add_node("n", lambda _: {})
    sub.add_edge(START, "n")

    graph = StateGraph(
        state,
        context_schema=kinds["Context_"],
        input_schema=kinds["Input_"],
        output_schema=kinds["Output_"],
    )
    graph.add_node("node", lambda _: {}, input_schema=kinds["Node_"])
    graph.add_node("sub", sub.compile())
    graph.add_edge(START, "node")
    graph.add_edge("node", "sub")
    graph.add_edge("sub", END)
    serde = GraphSerde(strict=True).allow_from_graph(graph.compile())
    for kind in kinds.values():
        assert through(kind(x=3), serde) == kind(x=3)
    assert through(Kind.A, serde) is Kind.A
