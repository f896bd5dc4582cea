"""Prints tables as kubectl does: columns of their own width, cut to the terminal, whole if there is none."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

#: The spaces between columns, and the fewest characters of the last column that are of use.
GAP, LEAST = 3, 12
#: The fewest columns of a text beside its title, and how far it is indented below it.
LEAST_TEXT, INDENT = 40, 2
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


def show(header: Sequence[str], rows: Sequence[Sequence[str]], *, whole: bool = False) -> None:
    """Print a table; the last column is cut to the width of the terminal, unless the table is to be shown `whole`.

    On a terminal that is too narrow for the other columns, the first cell stands alone, and the others below.
    """
    found = widths((header, *rows))
    for row in rows if is_narrow(found) and not whole else (header, *rows):
        add(row, found, header, whole=whole)


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the widths of all columns but the last one."""
    return [min(WIDEST, max(cells(row[column]) for row in rows)) for column in range(len(rows[0]) - 1)]


def is_narrow(widths: Sequence[int]) -> bool:
    """Return whether the terminal has no room for columns of these widths and something of the last one."""
    width = terminal_width()
    return 0 < width < sum(widths) + GAP * len(widths) + LEAST


def add(row: Sequence[str], widths: Sequence[int], header: Sequence[str], *, whole: bool = False) -> None:
    """Print one row, at once also into a pipe."""
    width = 0 if whole else terminal_width()
    click.echo(block(row, header, width) if width and is_narrow(widths) else line(row, widths, width))
    sys.stdout.flush()


def block(row: Sequence[str], header: Sequence[str], width: int) -> str:
    """Return a row as lines for a narrow terminal: the first cell, and then the others with the names of columns.

    No cell is broken but by the terminal; the last one is cut to its width.
    """
    lines = [row[0]]
    for name, cell in zip(header[1:], row[1:], strict=True):
        text = f"{name} {cell}"
        if not cell:
            continue
        if len(lines) > 1 and cells(f"{lines[-1]}  {text}") <= width:
            lines[-1] += f"  {text}"
        else:
            lines.append(cut(f"  {text}", width) if name == header[-1] else f"  {text}")
    return "\n".join(lines)


def titled(title: str, columns: int, text: str, width: int) -> str:
    """Return a text beside a title that takes so many columns, or below it where the terminal is narrow.

    No word is broken, so that names stay whole. `width` is that of the terminal, 0 without one.
    """
    if not width:
        return title + text
    beside = width - columns >= LEAST_TEXT
    indent = columns if beside else min(columns, INDENT)
    found = textwrap.wrap(text, max(1, width - indent), break_long_words=False, break_on_hyphens=False) or [""]
    below = f"\n{' ' * indent}"
    head = (
        title if beside or not columns else f"{title.rstrip()}{below if click.unstyle(title).strip() else ' ' * indent}"
    )
    return head + below.join(found)


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
