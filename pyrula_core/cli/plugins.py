"""Finds the commands that other packages hang in, without importing one of them.

Owns the entry-point group ``pyrula.commands``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from pyrula_core.cli.target import load_command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "Plugin", "find_plugin", "plugin_names"]

GROUP: Final = "pyrula.commands"

# A command's own help would have to be imported; these are known without.
SHORT_HELP: Final = {"demo": "Show a graph that is killed again and again and still finishes."}


class Plugin(click.Command):
    """Stands in for an installed command until it is called."""

    def __init__(self, entry: EntryPoint) -> None:
        origin = entry.dist.name if entry.dist else entry.value
        short_help = SHORT_HELP.get(entry.name, f"Brought by {origin}.")
        super().__init__(entry.name, short_help=short_help)
        self.entry = entry

    def load(self) -> click.Command:
        """Import the command; raises PyrulaError when that fails."""
        return load_command(self.entry)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Become the command itself: this is the first moment at which it is needed."""
        return self.load().make_context(info_name, args, parent, **extra)


def plugin_names() -> list[str]:
    """Return the names of the installed commands."""
    return sorted({entry.name for entry in installed()})


def find_plugin(name: str) -> Plugin | None:
    """Return the installed command of that name, not loaded; None where there is none."""
    for entry in installed():
        if entry.name == name:
            return Plugin(entry)
    return None


def installed() -> Iterable[EntryPoint]:
    """Return the entry points of the group, as the installed packages declare them."""
    # Imported here: our own commands do not look at what is installed.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)
