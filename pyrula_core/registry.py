"""Holds which workflows and agents this process can run.

Owns ``Definition`` and the ``@workflow`` and ``@agent`` decorators. Must never touch a store.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyrula_core.errors import NotRegisteredError
from pyrula_core.model import RunKind, check_run_name
from pyrula_core.values import JSON_CODEC, JsonCodec, ValueCodec

if TYPE_CHECKING:
    from pyrula_core.attempt import Attempt
    from pyrula_core.endings import Ending
    from pyrula_core.events import Event

__all__ = ["REGISTRY", "Definition", "Executor", "Registry", "agent", "workflow"]

Body = TypeVar("Body", bound=Callable[..., Awaitable[Any]])


class Executor(Protocol):
    """Runs one attempt of a run and says how it ended; the adapter brings its own."""

    async def execute(self, attempt: Attempt, history: list[Event]) -> Ending:
        """Do the run's work from its journal on; raises only what ends the attempt itself."""
        ...


@dataclass(frozen=True, slots=True)
class Definition:
    """What a name and version stand for in this process.

    ``body`` is ``async def body(ctx, *args)``; a definition with an ``executor`` has none.
    ``input_codec`` and ``output_codec`` encode what goes in and what comes out. ``retried`` says
    what a retry takes over from a failed run's journal; when it begins with ``run:created``, its
    payload and fields take the place of the copied ones.
    """

    name: str
    version: str
    kind: RunKind
    body: Callable[..., Awaitable[Any]] | None = None
    executor: Executor | None = None
    input_codec: ValueCodec = JSON_CODEC
    output_codec: ValueCodec = field(default_factory=lambda: JsonCodec(allow_local=True))
    retried: Callable[[Sequence[Event]], list[Event]] | None = None

    def __post_init__(self) -> None:
        check_run_name(self.name)


class Registry:
    """Definitions by name and version; the last one registered of a name is its current one."""

    def __init__(self) -> None:
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._current: dict[str, Definition] = {}

    def add(self, definition: Definition) -> None:
        """Register a definition; a second one of the same name and version replaces the first."""
        self._definitions[definition.name, definition.version] = definition
        self._current[definition.name] = definition

    def current(self, name: str) -> Definition:
        """Return what a new run of ``name`` would execute; raises NotRegisteredError."""
        try:
            return self._current[name]
        except KeyError:
            known = ", ".join(sorted(self._current)) or "none"
            raise NotRegisteredError(
                f"no workflow or agent named {name!r} is registered in this process "
                f"(registered: {known})",
                hint="Import the module that defines it, or check the spelling",
            ) from None

    def find(self, name: str, version: str) -> Definition | None:
        """Return the definition of exactly that version, None where it is not registered."""
        return self._definitions.get((name, version))

    def served(self) -> frozenset[tuple[str, str]]:
        """Return every name and version that this process can run."""
        return frozenset(self._definitions)


REGISTRY = Registry()
"""The registry that the decorators fill and that clients and workers read by default."""


def workflow(
    *, name: str | None = None, version: str = "1", registry: Registry | None = None
) -> Callable[[Body], Body]:
    """Register ``async def body(ctx, *args)`` as a workflow and return it unchanged.

    ``name`` defaults to the function's; ``version`` is pinned by every run that is started.
    Raises ValueError for an illegal name, TypeError for a body that is not ``async def``.
    """
    return _registering(RunKind.WORKFLOW, name, version, registry)


def agent(
    *, name: str | None = None, version: str = "1", registry: Registry | None = None
) -> Callable[[Body], Body]:
    """Register a body as an agent: as ``workflow``, with the error code ``agent_error``."""
    return _registering(RunKind.AGENT, name, version, registry)


def _registering(
    kind: RunKind, name: str | None, version: str, registry: Registry | None
) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        if not inspect.iscoroutinefunction(body):
            raise TypeError(f"{body!r} is not 'async def': a body must be a coroutine function")
        (REGISTRY if registry is None else registry).add(
            Definition(name=name or body.__name__, version=version, kind=kind, body=body)
        )
        return body  # type: ignore[return-value]

    return register
