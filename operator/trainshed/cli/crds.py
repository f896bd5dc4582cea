"""`trainshed crds`: the definitions of our kinds, for `kubectl apply -f -`."""

from __future__ import annotations

import click
import yaml

from trainshed.api.crd import definition
from trainshed.frameworks import FRAMEWORKS


@click.command()
def crds() -> None:
    """Print the CustomResourceDefinitions."""
    click.echo(yaml.safe_dump_all([definition(framework) for framework in FRAMEWORKS], sort_keys=False), nl=False)
