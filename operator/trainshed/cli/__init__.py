"""The command-line interface."""

from __future__ import annotations

from collections.abc import Callable

import click

from trainshed.config import Config

from .crds import crds
from .finalizers import remove_finalizers
from .migrate import migrate
from .operator import operator
from .render import render

Run = Callable[[Config], int]


@click.group()
@click.version_option(package_name="trainshed")
def cli() -> None:
    """Run distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes."""


cli.add_command(operator)
cli.add_command(render)
cli.add_command(crds)
cli.add_command(migrate)
cli.add_command(remove_finalizers)

__all__ = ["Run", "cli"]
