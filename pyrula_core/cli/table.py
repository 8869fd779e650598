"""Draws tables: with rich on a terminal, as plain aligned columns everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from pyrula_core.cli.text import printable

__all__ = ["Column", "draw"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, its side, whether it may wrap, and the styles of certain cells."""

    title: str
    right: bool = False
    wraps: bool = False
    styles: Mapping[str, str] = field(default_factory=dict)


def draw(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout."""
    safe = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        draw_rich(columns, safe)
    else:
        draw_plain(columns, safe)


def draw_plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, two spaces apart, under a line of titles."""
    titles = [column.title for column in columns]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, width, cell in zip(columns, widths, row, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def draw_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal; cells are text, never markup."""
    # Imported here: a listing that goes into a pipe does not pay for it.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wraps,
            overflow="fold",
        )
    for row in rows:
        styled = zip(columns, row, strict=True)
        table.add_row(*(Text(cell, column.styles.get(cell, "")) for column, cell in styled))
    Console().print(table)
