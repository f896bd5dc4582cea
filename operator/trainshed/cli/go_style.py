"""Flags in Go's style, as training-operator v1's Deployment has them: one dash, and values of boolean flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
#: The values that Go's `strconv.ParseBool` accepts.
TRUTH = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


class GoStyleCommand(click.Command):
    """A command that accepts flags in Go's style as well."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate the flags into click's style, and parse them."""
        return super().parse_args(ctx, list(translated(args, self.get_params(ctx))))


def translated(arguments: Iterable[str], parameters: Iterable[click.Parameter]) -> Iterator[str]:
    """Yield the arguments, each known flag with two dashes, and boolean flags without a value."""
    options = [option for option in parameters if isinstance(option, click.Option)]
    known = {name.removeprefix("--"): option for option in options for name in option.opts if name.startswith("--")}
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            yield argument
            break
        yield from _flag(argument, known)
    yield from remaining


def _flag(argument: str, known: dict[str, click.Option]) -> Iterator[str]:
    found = FLAG.fullmatch(argument)
    option = known.get(found[1]) if found else None
    if found is None or option is None:
        yield argument
    elif option.is_flag and found[2] is not None:
        yield from _boolean(found[1], found[2], option)
    else:
        yield f"--{argument.lstrip('-')}"


def _boolean(name: str, value: str, option: click.Option) -> Iterator[str]:
    if value not in TRUTH:
        raise click.BadParameter(f"invalid boolean value {value!r}: must be true or false", param=option)
    if TRUTH[value]:
        yield f"--{name}"
    else:
        yield from option.secondary_opts[:1]
