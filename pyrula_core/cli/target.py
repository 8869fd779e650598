"""Imports what a person named: a module on the command line, an installed command.

The only module of the packages that imports by name. Must never be given a name that was stored.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyrula_core.errors import CallerError, PyrulaError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["load_command", "load_target"]


def load_target(target: str) -> object:
    """Import ``module`` or ``module:name`` and return what it names.

    Modules in the working directory are found, as with ``python -m``. Raises CallerError with code
    ``target_not_found``; what the module itself raises passes through.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module_name, _, path = target.partition(":")
    try:
        found: object = import_module(module_name)
        for name in path.split(".") if path else []:
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise CallerError(
            f"{target!r} cannot be imported: {error}",
            hint="Write it as 'package.module:name', seen from the working directory",
            code="target_not_found",
        ) from error
    return found


def load_command(entry: EntryPoint) -> click.Command:
    """Load an installed command; raises PyrulaError with code ``command_unavailable``."""
    try:
        command = entry.load()
    except (ImportError, AttributeError) as error:
        raise PyrulaError(
            f"the command {entry.name!r} ({entry.value}) cannot be loaded: {error}",
            hint=f"Install what it needs; {origin(entry)} says which of its extras brings it",
            code="command_unavailable",
        ) from error
    if not isinstance(command, click.Command):
        raise PyrulaError(
            f"the command {entry.name!r} ({entry.value}) is a {type(command).__name__}, "
            "not a click command",
            hint=f"Report it to the authors of {origin(entry)}",
            code="command_unavailable",
        )
    return command


def origin(entry: EntryPoint) -> str:
    """Return which installed package brought an entry point."""
    return f"the package {entry.dist.name!r}" if entry.dist else "its package"
