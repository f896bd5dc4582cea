"""`trainshed operator`: runs the operator."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from trainshed.config import Config

from .operator_flags import FLAG_WARNINGS, FLAGS, GoStyleCommand


@click.command(cls=GoStyleCommand, params=[*FLAGS])
@click.pass_context
def operator(context: click.Context, /, **options: object) -> None:
    """Run the operator.

    It reconciles training jobs until it receives SIGTERM or SIGINT.
    """
    run: Callable[[Config], int] = context.obj
    warnings = tuple(context.meta.get(FLAG_WARNINGS, ()))
    sys.exit(run(Config(**options, flag_warnings=warnings)))  # type: ignore[arg-type] # click has checked them
