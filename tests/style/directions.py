"""Which module may import which: the layers of the packages, and what counts as public.

The lists are the law. A new pure module of the core belongs into ``PURE``; a submodule that the
adapter and the users may import belongs into ``PUBLIC``, with its docstring saying so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.style.rules import Module, Violation, within

__all__ = [
    "adapter_uses_public_names",
    "core_knows_no_framework",
    "dead_modules",
    "private_names_in_one_place",
    "pure_modules_stay_pure",
]

PURE = {
    "errors",
    "model",
    "events",
    "codec",
    "values",
    "fingerprint",
    "machine",
    "replay",
    "failure",
    "rebuild",
    "retry",
    "retry_config",
    "ports",
    "operations",
    "surroundings",
    "waits",
    "lineage",
    "user_code",
    "endings",
    "schema",
    "views",
}
"""Modules of pyrula_core that take values and return values; ``replay_x`` belongs to ``replay``."""

IMPURE_STDLIB = {
    "aiohttp",
    "asyncio",
    "anyio",
    "logging",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
}
"""Clocks, randomness, IO, threads and logs: what a pure module has no business with."""

IMPURE_CALLS = {"now", "utcnow", "today", "uuid1", "uuid4", "print", "open", "input"}
"""Calls that read a clock, draw randomness or do IO without an import that says so."""

PUBLIC = {
    "errors",  # the error tree
    "model",  # run keys, statuses, views, outcomes
    "events",  # what a journal holds
    "ports",  # the store contract, for writers of stores
    "values",  # the JSON codec of values, and how another codec is plugged in
    "versioning",  # StrandedPolicy
    "stores",  # open_store and the stores
    "testing",  # conformance suite and fakes, shipped for users
    "cli",  # where another package's commands hang in
    "adapter",  # what an adapter for another framework builds upon
}
"""Submodules of pyrula_core whose names are a promise; everything else may change tomorrow."""

FRAMEWORKS = ("langgraph", "langchain", "langchain_core", "langsmith", "pyrula_langgraph")
PRIVATE_NAMES_HOME = "pyrula_langgraph._compat"


def pure_modules_stay_pure(module: Module) -> Iterator[Violation]:
    if not is_pure(module.name):
        return
    reported: set[int] = set()
    for line, name in module.imports:
        impure = any(within(name, root) for root in IMPURE_STDLIB)
        inward = within(name, "pyrula_core") and not is_pure(name)
        if (impure or inward) and line not in reported:
            reported.add(line)
            yield module.at(line, f"a pure module imports {name}, which is not pure")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor):
            yield module.at(node.lineno, "a pure module awaits")
        elif isinstance(node, ast.Call) and last_name(node.func) in IMPURE_CALLS:
            yield module.at(node.lineno, f"a pure module calls {ast.unparse(node.func)}()")


def last_name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


def is_pure(name: str) -> bool:
    package, _, rest = name.partition(".")
    noun = rest.partition(".")[0]
    family = noun.partition("_")[0]
    return package == "pyrula_core" and bool({noun, family} & PURE)


def core_knows_no_framework(module: Module) -> Iterator[Violation]:
    if not within(module.name, "pyrula_core"):
        return
    for line, name in module.imports:
        if any(within(name, framework) for framework in FRAMEWORKS):
            yield module.at(line, f"the core imports {name}")


def adapter_uses_public_names(module: Module, core: set[str]) -> Iterator[Violation]:
    """``core`` names the core's modules, to tell ``from pyrula_core import name`` from a module."""
    if not within(module.name, "pyrula_langgraph"):
        return
    for line, name in module.imports:
        parts = name.split(".")
        if parts[0] != "pyrula_core":
            continue
        inner = ".".join(parts[:2]) in core and parts[1] not in PUBLIC
        hidden = any(is_private(part) for part in parts)
        if inner or hidden:
            yield module.at(line, f"the adapter imports {name}, which is not public")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names_in_one_place(module: Module) -> Iterator[Violation]:
    if module.name == PRIVATE_NAMES_HOME:
        return
    for line, name in module.imports:
        parts = name.split(".")
        foreign = parts[0] in {"langgraph", "langchain", "langchain_core"}
        if foreign and any(is_private(part) for part in parts):
            yield module.at(line, f"{name} is private; only {PRIVATE_NAMES_HOME} may name it")


def dead_modules(modules: Iterable[Module], entry_points: set[str]) -> Iterator[Violation]:
    """A module is dead when no other one imports it, no user may, and no command starts it."""
    known = list(modules)
    users = {f"pyrula_core.{name}" for name in PUBLIC}
    roots = entry_points | users | {"pyrula_langgraph.testing", "pyrula_langgraph.server"}
    for module in known:
        imported = any(
            within(name, module.name)
            for other in known
            if other is not module
            for _, name in other.imports
        )
        package = module.path.endswith(("__init__.py", "__main__.py"))
        if not (package or imported or module.name in roots or is_script(module)):
            yield module.at(1, "nothing imports this module")


def is_script(module: Module) -> bool:
    """``python -m module`` is its entry point."""
    return 'if __name__ == "__main__":' in module.source
