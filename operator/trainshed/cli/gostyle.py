"""Flags as Go's `flag` package has them, which is how v1's are written: `-name=x` and `--switch=false`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
#: The truth values of Go's `strconv.ParseBool`.
TRUTH = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


class GoStyle(click.Command):
    """A command whose flags may be written in Go's style as well."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them once they are in our style."""
        return super().parse_args(ctx, list(translated(args, self.get_params(ctx))))


def translated(arguments: Iterable[str], parameters: Iterable[click.Parameter]) -> Iterator[str]:
    """The arguments with two dashes to each flag that we know, and switches without a value."""
    options = [option for option in parameters if isinstance(option, click.Option)]
    known = {name.removeprefix("--"): option for option in options for name in option.opts if name.startswith("--")}
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            yield argument
            break
        yield from _flag(argument, known)
    yield from waiting


def _flag(argument: str, known: dict[str, click.Option]) -> Iterator[str]:
    found = FLAG.fullmatch(argument)
    option = known.get(found[1]) if found else None
    if found is None or option is None:
        yield argument
    elif option.is_flag and found[2] is not None:
        yield from _switch(found[1], found[2], option)
    else:
        yield f"--{argument.lstrip('-')}"


def _switch(name: str, value: str, option: click.Option) -> Iterator[str]:
    if value not in TRUTH:
        raise click.BadParameter(f"{value!r} is neither true nor false", param=option)
    if TRUTH[value]:
        yield f"--{name}"
    else:
        yield from option.secondary_opts[:1]
