from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from pyrula_langgraph.serde import GraphSerde


def through(value: Any, serde: GraphSerde | None = None) -> Any:
    serde = serde or GraphSerde()
    return serde.loads_typed(serde.dumps_typed(value))


class Colour(enum.Enum):
    RED = 1
    OTHER = "other"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Outer:
    class Inner(enum.StrEnum):
        A = "a"

    @dataclass
    class Nested:
        x: int = 1


class Point(NamedTuple):
    x: int
    y: Any = None


@dataclass
class Item:
    name: str
    parts: list[Any] = field(default_factory=list)
    later: Any = field(init=False)

    @functools.cached_property
    def size(self) -> int:
        return len(self.parts)


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any
    y: int = field(init=False, default=7)


class Animal(BaseModel):
    name: str = "?"


class Dog(Animal):
    tricks: tuple[str, ...] = ()


class Zoo(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    animal: Animal
    anything: Any = None
    at: datetime | None = None
    _seen: int = PrivateAttr(0)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int = 0


class Strict(BaseModel):
    x: int = Field(gt=5)


class Name(str):
    __slots__ = ("__dict__",)


def item() -> Item:
    made = Item("n", [(1, 2)])
    made.later = Outer.Nested(3)
    assert made.size == 1
    made.extra = "set from outside"  # type: ignore[attr-defined]
    return made


class Counts(int):
    pass


class Weird:
    __slots__ = ()


class Growing(BaseModel):
    x: int = 1
