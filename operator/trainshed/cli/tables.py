"""Prints tables as kubectl does: columns of their own width, cut to the terminal, whole if there is none."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import click

#: The spaces between columns, and the fewest characters of the last column that are of use.
GAP, LEAST = 3, 12
#: The widest a column is made; a longer cell shifts only its own row.
WIDEST = 256
#: The colours of states, on a terminal.
COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "red",
    "Blocked": "yellow",
    "Restarting": "yellow",
    "Suspended": "cyan",
}


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the last column is cut to the width of the terminal."""
    found = widths((header, *rows))
    for row in (header, *rows):
        add(row, found)


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the widths of all columns but the last one."""
    return [min(WIDEST, max(cells(row[column]) for row in rows)) for column in range(len(rows[0]) - 1)]


def add(row: Sequence[str], widths: Sequence[int]) -> None:
    """Print one row, at once also into a pipe."""
    click.echo(line(row, widths, terminal_width()))
    sys.stdout.flush()


def terminal_width() -> int:
    """Return the columns of the terminal, 0 if the output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def line(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    """Return a row with columns of these widths, of at most `width` columns if that is not 0."""
    *firsts, last = row
    start = "".join(
        _coloured(cell) + " " * (max(0, most - cells(cell)) + GAP) for cell, most in zip(firsts, widths, strict=True)
    )
    if width:
        last = cut(last, max(LEAST, width - sum(widths) - GAP * len(widths)))
    return f"{start}{last}".rstrip()


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - few texts need it

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """Return a text, or its beginning, that takes at most `most` columns."""
    if cells(text) <= most:
        return text
    from rich.cells import set_cell_size  # noqa: PLC0415 - few texts need it

    return set_cell_size(text, most - 1).rstrip() + "…"


def _coloured(text: str) -> str:
    return click.style(text, COLOURS[text]) if text in COLOURS else text
