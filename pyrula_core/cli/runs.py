"""The group ``pyrula runs``."""

from __future__ import annotations

import click

from pyrula_core.cli.listing import list_runs
from pyrula_core.cli.options import place_options
from pyrula_core.cli.showing import show_run
from pyrula_core.cli.steering import answer_run, cancel_run, pause_run, resume_run, retry_run

__all__ = ["runs"]


@click.group(short_help="List runs, look into one, steer it.")
@place_options
def runs() -> None:
    """List runs, look into one, pause, resume, cancel, retry it, answer its questions.

    A run is named by its id, which is enough where no other name has a run with the same id;
    otherwise add --name, or write NAME/RUN_ID.
    """


for command in (list_runs, show_run, pause_run, resume_run, cancel_run, retry_run, answer_run):
    runs.add_command(command)
