"""The command ``pyrula`` itself: global options, the list of commands, the boundary for errors."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from pyrula_core.cli.complaint import complain, exit_code
from pyrula_core.cli.invocation import DEFAULT_NAMESPACE, Invocation
from pyrula_core.cli.options import examples
from pyrula_core.cli.plugins import find_plugin, plugin_names
from pyrula_core.cli.runs import runs
from pyrula_core.errors import PyrulaError
from pyrula_core.stores.opening import DEFAULT_URL

__all__ = ["main"]


class Root(click.Group):
    """A group that also lists installed commands, and that tells errors instead of raising them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return our own commands and the installed ones, by name."""
        return sorted({*super().list_commands(ctx), *plugin_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; our own come first."""
        return super().get_command(ctx, cmd_name) or find_plugin(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of ours becomes a line on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except PyrulaError as error:
            complain(error, as_json=ctx.ensure_object(Invocation).as_json)
            ctx.exit(exit_code(error))


def show_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 (click's order)
    """Print the installed version and end."""
    if value and not context.resilient_parsing:
        # Imported here: see plugins.
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("pyrula")
        except PackageNotFoundError:
            found = "(not installed)"
        click.echo(f"pyrula {found}")
        context.exit()


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "pyrula runs list --status error",
        "pyrula runs show run-1 --store sqlite:///runs.db",
        "PYRULA_STORE=sqlite:////var/lib/shop/runs.db pyrula runs list --json",
    ),
)
@click.option(
    "--store",
    metavar="URL",
    envvar="PYRULA_STORE",
    show_envvar=True,
    help=f"Which store to use. [default: {DEFAULT_URL}, in the working directory]",
)
@click.option("--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(context: click.Context, store: str | None, namespace: str) -> None:
    """Look at durable runs and steer them.

    --store and --namespace may also stand behind a command of "pyrula runs".

    Exit codes: 0 done, 1 failed, 2 the call was at fault, 3 the store or a journal in it was.
    """
    source = context.get_parameter_source("store")
    from_environment = source is ParameterSource.ENVIRONMENT
    context.obj = Invocation(store, namespace, from_environment=from_environment)


main.add_command(runs)
