"""Tables that are generated from the code: the rules, the flags of the operator."""

from __future__ import annotations

import click

from trainshed.cli.operator import operator
from trainshed.plan.rules import RULES
from trainshed.trainjob import losses as conversions

from .pictures import sentence


def rules(_of: str = "") -> str:
    """Return the table of the rules, in order."""
    rows = [f"| {place} | `{rule.__name__}` | {sentence(rule)} |" for place, rule in enumerate(RULES, 1)]
    return "\n".join(("| | rule | when it applies, and what it does |", "|---|---|---|", *rows))


def losses(of: str) -> str:
    """Return the table of what a conversion in a direction, such as TO_TRAINJOB, does not carry over."""
    rows = sorted(getattr(conversions, of).values(), key=lambda row: not row.serious)
    lines = (f"| {'lost' if row.serious else 'differs'} | `{row.field}` | {row.what} | {row.advice} |" for row in rows)
    return "\n".join(("| | field | what becomes of it | what to do |", "|---|---|---|---|", *lines))


def flags(_of: str = "") -> str:
    """Return the table of all flags that --help shows, with their defaults."""
    options = (option for option in operator.params if isinstance(option, click.Option) and not option.hidden)
    rows = (f"| {_spelt(option)} | {_default(option)} | {option.help or ''} |" for option in options)
    return "\n".join(("| flag | default | |", "|---|---|---|", *rows))


def _spelt(option: click.Option) -> str:
    return ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def _default(option: click.Option) -> str:
    if option.is_flag:
        return "on" if option.default is True else "off"
    return f"`{option.default}`" if isinstance(option.default, str | int | float) and option.default != "" else ""
