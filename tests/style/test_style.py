"""Style is a test: the repository obeys STYLE's rules, and every rule can fail.

A violation is fixed in the code, never by loosening the rule.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.style import directions, rules
from tests.style.rules import Module, Violation

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pyrula_core", "pyrula_langgraph")
ALL_CODE = (*PACKAGES, "tests", "examples", "benchmarks", "run.py")
TEXT = {".py", ".md", ".toml", ".sql", ".lua", ".jsonl", ".json", ".csv", ".html", ".js", ".css"}
TEXT |= {".ipynb", ".yml", ".yaml", ".txt", ".cfg", ".svg", ""}
NOT_OURS = {".git", ".venv", "node_modules", "build", "dist", "__pycache__"}

MAY_IMPORT_BY_NAME = {
    "pyrula_core/cli/target.py": "the user named module:app on the command line",
}
"""The only modules that may import what a string names: the string comes from a command line."""

Rule = Callable[[Module], Iterator[Violation]]


def nothing_stored_is_run(module: Module) -> Iterator[Violation]:
    return rules.nothing_stored_is_run(module, MAY_IMPORT_BY_NAME)


EVERYWHERE: list[Rule] = [
    rules.modules_are_short,
    rules.functions_are_short,
    rules.annotations_are_postponed,
]
IN_PACKAGES: list[Rule] = [
    rules.names_say_something,
    rules.public_names_have_docstrings,
    rules.exports_are_explicit,
    rules.sql_is_never_formatted,
    nothing_stored_is_run,
    directions.pure_modules_stay_pure,
    directions.core_knows_no_framework,
    directions.private_names_in_one_place,
]


def read(*places: str) -> list[Module]:
    """Read every module in these folders or files of the repository."""
    files: list[Path] = []
    for place in places:
        path = ROOT / place
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
    named = [(file.relative_to(ROOT), file) for file in files]
    return [
        Module(relative.as_posix(), file.read_text("utf-8"))
        for relative, file in named
        if not NOT_OURS.intersection(relative.parts)
    ]


def texts() -> Iterator[tuple[str, str]]:
    """Every text file of the repository, with its path."""
    for file in sorted(ROOT.rglob("*")):
        relative = file.relative_to(ROOT)
        hidden = any(part.startswith(".") and part != ".ci" for part in relative.parts[:-1])
        if hidden or NOT_OURS.intersection(relative.parts) or file.suffix not in TEXT:
            continue
        if file.is_file():
            yield relative.as_posix(), file.read_text("utf-8", errors="replace")


def entry_points() -> set[str]:
    """The modules that pyproject.toml names as commands."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["scripts"], *project["entry-points"].values()]
    return {target.partition(":")[0] for group in groups for target in group.values()}


def verdict(violations: Iterable[Violation]) -> None:
    listed = [str(violation) for violation in violations]
    if listed:
        pytest.fail(f"{len(listed)} violations\n" + "\n".join(listed), pytrace=False)


# --- the repository obeys -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
def test_all_code_obeys(rule: Rule) -> None:
    verdict(v for module in read(*ALL_CODE) for v in rule(module))


@pytest.mark.parametrize("rule", IN_PACKAGES, ids=lambda rule: rule.__name__)
def test_the_packages_obey(rule: Rule) -> None:
    verdict(v for module in read(*PACKAGES) for v in rule(module))


def test_the_adapter_uses_the_public_names_of_the_core() -> None:
    core = {module.name for module in read("pyrula_core")}
    adapter = read("pyrula_langgraph")
    verdict(v for m in adapter for v in directions.adapter_uses_public_names(m, core))


def test_no_module_is_dead() -> None:
    verdict(directions.dead_modules(read(*PACKAGES), entry_points()))


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    verdict(v for path, text in texts() for v in rules.no_machine_paths(path, text))


def test_the_rules_saw_every_folder() -> None:
    """A rule over an empty list would pass for ever."""
    seen = {module.path.split("/")[0] for module in read(*ALL_CODE)}
    assert seen >= {*PACKAGES, "tests", "run.py"}
    assert {"pyproject.toml", "LICENSE", ".ci/run"} <= {path for path, _ in texts()}


def test_the_exceptions_still_exist() -> None:
    """An exception for a module that is gone would be a hole nobody sees."""
    paths = {module.path for module in read(*PACKAGES)}
    built = any(path.startswith("pyrula_core/cli/") for path in paths)
    assert not built or set(MAY_IMPORT_BY_NAME) <= paths


# --- every rule can fail --------------------------------------------------------------------------

HEAD = '"""A module."""\n\nfrom __future__ import annotations\n\n'
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * rules.function_lines_max

BAD: list[tuple[Rule, str, str]] = [
    (rules.modules_are_short, "pyrula_core/a.py", "x = 1\n" * (rules.module_lines_max + 1)),
    (rules.functions_are_short, "pyrula_core/a.py", LONG_FUNCTION),
    (rules.annotations_are_postponed, "pyrula_core/a.py", '"""A module."""\nx = 1'),
    (rules.names_say_something, "pyrula_core/utils.py", ""),
    (rules.names_say_something, "pyrula_core/a.py", "class RunManager: ..."),
    (rules.names_say_something, "pyrula_core/a.py", "def get_run_info(): ..."),
    (rules.names_say_something, "pyrula_core/a.py", "def do_append(): ..."),
    (rules.public_names_have_docstrings, "pyrula_core/a.py", "x = 1"),
    (rules.public_names_have_docstrings, "pyrula_core/a.py", HEAD + "def f(): ..."),
    (
        rules.public_names_have_docstrings,
        "pyrula_core/a.py",
        HEAD + 'class A:\n  "A."\n  def f(): 1',
    ),
    (rules.exports_are_explicit, "pyrula_core/a.py", HEAD + "def f(): ..."),
    (rules.sql_is_never_formatted, "pyrula_core/a.py", 'f"SELECT x FROM {table}"'),
    (rules.sql_is_never_formatted, "pyrula_core/a.py", '"DELETE FROM runs WHERE id = %s" % x'),
    (rules.sql_is_never_formatted, "pyrula_core/a.py", '"INSERT INTO {}".format(x)'),
    (rules.sql_is_never_formatted, "pyrula_core/a.py", '"UPDATE runs SET a = " + value'),
    (rules.sql_is_never_formatted, "pyrula_core/a.py", 'f"PRAGMA user_version = {n}"'),
    (directions.pure_modules_stay_pure, "pyrula_core/replay.py", "import asyncio"),
    (directions.pure_modules_stay_pure, "pyrula_core/replay.py", "from time import monotonic"),
    (directions.pure_modules_stay_pure, "pyrula_core/replay.py", "from .engine import Engine"),
    (directions.pure_modules_stay_pure, "pyrula_core/replay.py", "from pyrula_core import step"),
    (directions.pure_modules_stay_pure, "pyrula_core/replay.py", "x = datetime.now()"),
    (directions.pure_modules_stay_pure, "pyrula_core/replay.py", "async def f(): await g()"),
    (directions.core_knows_no_framework, "pyrula_core/a.py", "def f():\n  import langgraph.types"),
    (directions.core_knows_no_framework, "pyrula_core/a.py", "from langchain_core import messages"),
    (directions.core_knows_no_framework, "pyrula_core/a.py", "import pyrula_langgraph"),
    (directions.private_names_in_one_place, "pyrula_langgraph/a.py", "import langgraph._internal"),
    (
        directions.private_names_in_one_place,
        "pyrula_langgraph/a.py",
        "from langgraph.pregel import _loop",
    ),
]
RUNS_WHAT_IT_READS = [
    "import pickle",
    "from marshal import loads",
    "def f():\n  import shelve",
    "eval(text)",
    "exec(text)",
    "importlib.import_module(name)",
    "from importlib import import_module\nimport_module(name)",
    "__import__(name)",
    "builtins.eval(text)",
]
NOT_PUBLIC = [
    "import pyrula_core.engine",
    "from pyrula_core.engine import Engine",
    "from pyrula_core import engine",
    "from pyrula_core import _hidden",
]


@pytest.mark.parametrize("rule,path,source", BAD)
def test_each_rule_catches_what_it_forbids(rule: Rule, path: str, source: str) -> None:
    assert list(rule(Module(path, source)))


@pytest.mark.parametrize("source", RUNS_WHAT_IT_READS)
def test_running_what_was_read_is_caught_and_only_the_listed_modules_may(source: str) -> None:
    module = Module("pyrula_core/a.py", source)
    assert list(rules.nothing_stored_is_run(module, {}))
    assert not list(rules.nothing_stored_is_run(module, {"pyrula_core/a.py": "the reason"}))


@pytest.mark.parametrize("source", NOT_PUBLIC)
def test_the_inner_names_of_the_core_are_caught_in_the_adapter(source: str) -> None:
    module = Module("pyrula_langgraph/a.py", source)
    core = {"pyrula_core", "pyrula_core.engine", "pyrula_core.errors"}
    assert list(directions.adapter_uses_public_names(module, core))


def test_a_dead_module_is_caught_and_a_started_one_is_not() -> None:
    dead = Module("pyrula_core/orphan.py", "import pyrula_core.orphan")
    script = Module("pyrula_core/child.py", 'if __name__ == "__main__":\n    main()\n')
    command = Module("pyrula_core/listing.py", "")
    modules = [dead, script, command]
    violations = list(directions.dead_modules(modules, {"pyrula_core.listing"}))
    assert [violation.path for violation in violations] == [dead.path]


@pytest.mark.parametrize("folder", ["root", "home", "Users", "work"])
def test_a_machine_path_is_caught_and_an_address_is_not(folder: str) -> None:
    assert list(rules.no_machine_paths("a.md", f"see /{folder}/me"))
    assert not list(rules.no_machine_paths("a.md", f"https://example.org/{folder}/me"))


def test_good_code_passes_every_rule() -> None:
    source = (
        HEAD + '__all__ = ["f"]\n\n\ndef f(x: int) -> int:\n    """Return x."""\n    return x\n'
    )
    module = Module("pyrula_core/replay.py", source)
    assert not [v for rule in (*EVERYWHERE, *IN_PACKAGES) for v in rule(module)]
