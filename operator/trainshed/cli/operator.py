"""`trainshed operator`: runs the operator."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from trainshed.config import Config

from .go_style import GoStyleCommand
from .operator_flags import FLAGS, config


@click.command(cls=GoStyleCommand, params=[*FLAGS])
@click.pass_context
def operator(context: click.Context, /, **_options: object) -> None:
    """Run the operator.

    It reconciles training jobs until it receives SIGTERM or SIGINT.
    """
    run: Callable[[Config], int] = context.obj
    sys.exit(run(config(context)))
