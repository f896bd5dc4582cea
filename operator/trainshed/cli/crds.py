"""`trainshed crds`: print the CustomResourceDefinitions, for `kubectl apply -f -`."""

from __future__ import annotations

import click

from trainshed.crd import definition
from trainshed.frameworks import MPI_VERSIONS, served
from trainshed.manifests import writer


@click.command()
@click.option(
    "--mpi-version", default="v1", type=click.Choice([*MPI_VERSIONS]), show_default=True, help="API version of MPIJob."
)
def crds(mpi_version: str) -> None:
    """Print the CustomResourceDefinitions."""
    definitions = [definition(framework) for framework in served(mpi_version)]
    click.echo(writer.write(definitions), nl=False)
