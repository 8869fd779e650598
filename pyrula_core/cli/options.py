"""The arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pyrula_core.cli.invocation import Invocation

__all__ = ["examples", "json_option", "run_argument"]

F = TypeVar("F", bound=Callable[..., Any])


def remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 (click's order)
    """Keep the choice where errors see it too."""
    context.ensure_object(Invocation).as_json = value


def json_option(command: F) -> F:
    """Add ``--json``."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=remember_json,
        help="Print JSON; errors too, as {'error': {...}}.",
    )(command)


def run_argument(command: F) -> F:
    """Add RUN_ID and ``--name``."""
    named = click.option("--name", metavar="NAME", help="The run's name, where the id has several.")
    return click.argument("run_id", metavar="RUN_ID")(named(command))


def examples(*lines: str) -> str:
    """Return the end of a help text; click leaves what follows a backspace as it is."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
