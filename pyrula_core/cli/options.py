"""The arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pyrula_core.cli.invocation import Invocation

__all__ = ["app_option", "common_options", "examples", "place_options", "run_argument"]

F = TypeVar("F", bound=Callable[..., Any])


def remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 (click's order)
    """Keep the choice where errors see it too."""
    context.ensure_object(Invocation).as_json = value


def remember_store(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Let a store that stands after the command win over one before it."""
    if value is not None:
        invocation = context.ensure_object(Invocation)
        invocation.store, invocation.from_environment = value, False


def remember_namespace(
    context: click.Context, _parameter: click.Parameter, value: str | None
) -> None:
    """Let a namespace that stands after the command win over one before it."""
    if value is not None:
        context.ensure_object(Invocation).namespace = value


def place_options(command: F) -> F:
    """Add ``--store`` and ``--namespace``, which may stand before the command too."""
    store = click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=remember_store,
        help="Which store to use, as before the command.",
    )
    namespace = click.option(
        "--namespace", metavar="NAME", expose_value=False, callback=remember_namespace
    )
    return store(namespace(command))


def common_options(command: F) -> F:
    """Add what every command about runs takes: ``--store``, ``--namespace``, ``--json``."""
    as_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=remember_json,
        help="Print JSON; errors too, as {'error': {...}}.",
    )
    return place_options(as_json(command))


def app_option(command: F) -> F:
    """Add ``--app``."""
    return click.option(
        "--app",
        metavar="MODULE[:NAME]",
        help="Import this first: the module that calls durable(), for the run of a wrapped graph.",
    )(command)


def run_argument(command: F) -> F:
    """Add RUN_ID and ``--name``."""
    named = click.option("--name", metavar="NAME", help="The run's name, where the id has several.")
    return click.argument("run_id", metavar="RUN_ID")(named(command))


def examples(*lines: str) -> str:
    """Return the end of a help text; click leaves what follows a backspace as it is."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
