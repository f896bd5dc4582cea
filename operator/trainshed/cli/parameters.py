"""Types of options that several commands have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import click

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: One or more numbers with units, as Go and kubectl take durations, and besides days; or seconds alone.
WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", re.ASCII)
PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)


def duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `1h30m` or `45`; raises `click.BadParameter`."""
    if not WHOLE.fullmatch(text):
        raise click.BadParameter(f"{text!r} is no duration: write it like 90s, 30m or 1h30m")
    parts = PART.findall(text)
    return sum(float(number) * UNITS[unit] for number, unit in parts) if parts else float(text)


def one_of(default: StrEnum) -> dict[str, Any]:
    """Return the settings of an option that is a value of an enumeration, and shows its default."""
    return {"default": default.value, "type": click.Choice([one.value for one in type(default)]), "show_default": True}


def separated(values: Iterable[str]) -> list[str]:
    """Return the words of an option that may be repeated, or be a list separated by commas or white space."""
    return [word for value in values for word in re.split(r"[,\s]+", value) if word]


class Finite(click.FloatRange):
    """A number in a range; `nan` is no number, although no bound excludes it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number; raises `click.BadParameter`."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is no number", param, ctx)
        return found


def pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression; raises `click.BadParameter`."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None
