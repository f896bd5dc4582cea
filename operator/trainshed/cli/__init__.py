"""The command line."""

from __future__ import annotations

from collections.abc import Callable

import click

from trainshed.settings import Settings

from .adopt import adopt
from .crds import crds
from .operate import operator
from .release import release
from .render import render

Run = Callable[[Settings], int]


@click.group()
@click.version_option(package_name="trainshed")
def cli() -> None:
    """Run distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes."""


cli.add_command(operator)
cli.add_command(render)
cli.add_command(crds)
cli.add_command(adopt)
cli.add_command(release)

__all__ = ["Run", "cli"]
