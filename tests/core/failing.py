"""Exceptions of every awkward kind, and how the tests look at them."""

from __future__ import annotations

import enum
import errno
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pyrula_core import failure_state
from pyrula_core.failure import FailureRecord
from pyrula_core.rebuild import live, rebuild


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"failed with {code}")
        self.code = code


class TwoArguments(Exception):
    def __init__(self, user: str, limit: int) -> None:
        super().__init__(user, limit)
        self.user, self.limit = user, limit


class NoArguments(Exception):
    def __init__(self) -> None:
        super().__init__("nothing to say")


class Formatting(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"not found: {name}")


class WithoutSuper(Exception):
    def __init__(self, a: int, b: int) -> None:
        self.total = a + b

    def __str__(self) -> str:
        return f"total {self.total}"


class OwnNew(Exception):
    def __new__(cls, a: int, b: int) -> Self:
        self = super().__new__(cls, a, b)
        self.product = a * b
        return self

    product: int


class Slotted(Exception):
    __slots__ = ("never_set", "nothing", "retries")

    def __init__(self, retries: int) -> None:
        super().__init__("slotted")
        self.retries = retries
        self.nothing = None


class UserOSError(OSError):
    def __init__(self, host: str, *, port: int) -> None:
        super().__init__(errno.ECONNREFUSED, "refused", host)
        self.port = port


class UserConnectionError(ConnectionError):
    def __init__(self, host: str) -> None:
        super().__init__(f"cannot reach {host}")
        self.host = host


class UserTimeout(TimeoutError):
    pass


class Colour(enum.StrEnum):
    RED = "red"


class Kind(enum.Enum):
    A = 1


class Tagged(Exception):
    def __init__(self, value: object) -> None:
        super().__init__("tagged")
        self.value = value


@dataclass
class DataError(Exception):
    code: int
    text: str = "x"


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int
    items: tuple[int, ...] = ()


class ErrorMembers(ValueError, enum.Enum):
    BAD = "bad"


class Abstract(Exception, ABC):
    def __init__(self, lock: object = None) -> None:
        self.lock = lock

    @abstractmethod
    def explain(self) -> str: ...


class Concrete(Abstract):
    def explain(self) -> str:
        return "so"


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


class WithLock(Exception):
    """Everything that could spoil a stand-in, on one class."""

    registered: ClassVar[list[type]] = []

    def __init_subclass__(cls) -> None:
        WithLock.registered.append(cls)

    def __init__(self, text: str, lock: object) -> None:
        super().__init__(text)
        self.lock = lock

    @property
    def message(self) -> str:
        return f"from the property {self.lock}"

    def __setattr__(self, name: str, value: object) -> None:
        if name not in {"lock", "__notes__"}:
            raise TypeError("immutable")
        super().__setattr__(name, value)

    def __str__(self) -> str:
        return f"locked: {self.args[0]} {bool(self.lock)}"

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lock, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithLock) and self.lock == other.lock

    def __hash__(self) -> int:
        return hash(self.lock)


class RandomText(Exception):
    count = 0

    def __str__(self) -> str:
        RandomText.count += 1
        return f"said {RandomText.count} times"


class UserMeta(type):
    made: ClassVar[list[str]] = []

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> UserMeta:
        UserMeta.made.append(name)
        return super().__new__(mcs, name, bases, space)


class WithMeta(Exception, metaclass=UserMeta):
    pass


class OwnGroup(ExceptionGroup[Exception]):
    def __new__(cls, errors: list[Exception], code: int) -> Self:
        self = super().__new__(cls, f"{len(errors)} failed", errors)
        self.code = code
        return self

    code: int


def raised(exc: BaseException) -> BaseException:
    """The exception as it is when it has been raised and caught."""
    try:
        raise exc
    except BaseException as caught:
        return caught


def state(exc: BaseException) -> dict[str, Any]:
    """Everything that an exception carries, members of groups included."""
    found = dict(failure_state.carried(exc))
    members = failure_state.members_of(exc)
    if members:
        return {**found, "members": [state(member) for member in members]}
    return {**found, "args": exc.args, "notes": getattr(exc, "__notes__", [])}


def both(exc: BaseException) -> tuple[FailureRecord, BaseException]:
    """Record, then compare what the live body sees with what a replay of the JSON sees."""
    record, seen = live(raised(exc))
    written = json.dumps(record.to_json(), allow_nan=False).encode()
    again = FailureRecord.from_json(json.loads(written))
    assert again == record
    replayed = rebuild(again)
    assert type(replayed) is type(seen)
    assert str(replayed) == str(seen)
    assert repr(replayed) == repr(seen)
    assert state(replayed) == state(seen)
    return record, seen


def provoked(code: str) -> BaseException:
    try:
        exec(code)
    except BaseException as error:
        return error
    raise AssertionError(code)


def noted(exc: BaseException) -> BaseException:
    exc.add_note("first")
    exc.add_note("second")
    return exc
