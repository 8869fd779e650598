"""The rules of "Style is a test" as pure functions: source in, violations out.

Each rule takes a ``Module`` (or all of them) and yields ``Violation``s; ``test_style.py`` runs them
over the repository and shows for each, on a tiny bad snippet, that it can fail. They may only get
stricter: never raise a limit and never add an exception without a record in ``docs/decisions/``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

module_lines_max = 400
function_lines_max = 50

BANNED_WORDS = {"manager", "helper", "helpers", "utils", "util", "data", "info"}
"""They name no thing. STYLE: one noun per module, one verb per act."""

BANNED_CALLS = {"eval", "exec", "compile", "__import__", "import_module"}
BANNED_IMPORTS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}

FUTURE = "__future__.annotations"

MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/\w")

SQL = re.compile(
    r"\b(?:SELECT\b.+\bFROM|INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE\b.+\bSET|DELETE\s+FROM"
    r"|CREATE\s+(?:TABLE|INDEX)|DROP\s+TABLE|ALTER\s+TABLE)\b|\bPRAGMA\s+\w+\s*[=(]",
    re.DOTALL,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule at one place."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Module:
    """A source file: where it is, what it is called when imported, what it says."""

    path: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, filename=self.path)

    @cached_property
    def name(self) -> str:
        parts = self.path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Every imported dotted name with its line; ``from a import b`` gives ``a.b``."""
        return list(imported_names(self))

    def at(self, line: int, message: str) -> Violation:
        return Violation(self.path, line, message)


def imported_names(module: Module) -> Iterator[tuple[int, str]]:
    package = module.name.split(".")
    if not module.path.endswith("__init__.py"):
        package = package[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def within(name: str, prefix: str) -> bool:
    """True when a dotted name is ``prefix`` or lies inside it."""
    return name == prefix or name.startswith(prefix + ".")


# --- size -----------------------------------------------------------------------------------------


def modules_are_short(module: Module) -> Iterator[Violation]:
    lines = len(module.source.splitlines())
    if lines > module_lines_max:
        yield module.at(1, f"{lines} lines, at most {module_lines_max} are allowed")


def functions_are_short(module: Module) -> Iterator[Violation]:
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > function_lines_max:
                message = f"{node.name}() has {lines} lines, at most {function_lines_max}"
                yield module.at(node.lineno, message)


# --- words ----------------------------------------------------------------------------------------


def words_of(identifier: str) -> list[str]:
    """Split snake_case and CamelCase into lower-case words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", identifier)
    return [word.lower() for word in spaced.split("_") if word]


def names_say_something(module: Module) -> Iterator[Violation]:
    named = [(1, part) for part in module.name.split(".")]
    named += [(node.lineno, node.name) for node in ast.walk(module.tree) if isinstance(node, Named)]
    for line, name in named:
        for word in sorted(BANNED_WORDS.intersection(words_of(name))):
            yield module.at(line, f"the word {word!r} in {name!r} names no thing")
        if name.startswith("do_"):
            yield module.at(line, f"{name!r} starts with do_; use the verb alone")


def no_machine_paths(path: str, source: str) -> Iterator[Violation]:
    """Absolute paths of somebody's machine do not belong into the repository."""
    for number, line in enumerate(source.splitlines(), start=1):
        found = MACHINE_PATHS.search(line)
        if found:
            yield Violation(path, number, f"the machine path {found.group()!r}...")


# --- public names ---------------------------------------------------------------------------------


def public_definitions(body: list[ast.stmt]) -> Iterator[Named]:
    for node in body:
        if isinstance(node, Named) and not node.name.startswith("_"):
            yield node


def public_names_have_docstrings(module: Module) -> Iterator[Violation]:
    if module.tree.body and ast.get_docstring(module.tree) is None:
        yield module.at(1, "the module has no docstring")
    exported = exports(module)
    for node in public_definitions(module.tree.body):
        if exported is not None and node.name not in exported:
            continue
        if ast.get_docstring(node) is None:
            yield module.at(node.lineno, f"{node.name} is public and has no docstring")
        if isinstance(node, ast.ClassDef):
            for method in public_definitions(node.body):
                if ast.get_docstring(method) is None and not is_accessory(method):
                    message = f"{node.name}.{method.name} is public and has no docstring"
                    yield module.at(method.lineno, message)


def is_accessory(node: Named) -> bool:
    """Overloads, setters and overrides take their docstring from the name they belong to."""
    for decorator in node.decorator_list:
        name = ast.unparse(decorator).rpartition(".")[2]
        if name in {"overload", "setter", "deleter", "override"}:
            return True
    return False


def exports(module: Module) -> set[str] | None:
    """The names in ``__all__``; None without one."""
    for node in module.tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets) and node.value:
            return set(ast.literal_eval(node.value))
    return None


def exports_are_explicit(module: Module) -> Iterator[Violation]:
    if exports(module) is None and any(True for _ in public_definitions(module.tree.body)):
        yield module.at(1, "public names but no __all__")


def annotations_are_postponed(module: Module) -> Iterator[Violation]:
    says_more_than_its_docstring = len(module.tree.body) > bool(ast.get_docstring(module.tree))
    if says_more_than_its_docstring and FUTURE not in {name for _, name in module.imports}:
        yield module.at(1, "no 'from __future__ import annotations'")


# --- safety ---------------------------------------------------------------------------------------


def nothing_stored_is_run(module: Module, allowed: dict[str, str]) -> Iterator[Violation]:
    """No pickle, no eval, no import by string; ``allowed`` maps a module's path to its reason."""
    if module.path in allowed:
        return
    for line, name in module.imports:
        root = name.split(".")[0]
        if root in BANNED_IMPORTS:
            yield module.at(line, f"imports {root}, which can run what it reads")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and called_name(node) in BANNED_CALLS:
            yield module.at(node.lineno, f"calls {ast.unparse(node.func)}()")


def called_name(node: ast.Call) -> str:
    """The function's own name; ``re.compile`` and other methods of that name are harmless."""
    match node.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="importlib" | "builtins"), attr=name):
            return name
        case _:
            return ""


def sql_is_never_formatted(module: Module) -> Iterator[Violation]:
    for node in ast.walk(module.tree):
        if is_formatted_sql(node):
            yield module.at(node.lineno, "SQL is put together from strings; bind its values")


def is_formatted_sql(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr(values=values) if any(isinstance(v, ast.FormattedValue) for v in values):
            return says_sql(node)
        case ast.BinOp(op=ast.Mod() | ast.Add(), left=left, right=right):
            constant = isinstance(left, ast.Constant) and isinstance(right, ast.Constant)
            return not constant and (says_sql(left) or says_sql(right))
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "replace")):
            return says_sql(value)
        case _:
            return False


def says_sql(node: ast.AST) -> bool:
    if not isinstance(node, (ast.Constant, ast.JoinedStr)):
        return False
    texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return bool(SQL.search("".join(t if isinstance(t, str) else " " for t in texts)))
