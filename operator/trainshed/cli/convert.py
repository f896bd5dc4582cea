"""`trainshed convert`: jobs of kubeflow.org as TrainJobs with runtimes, and TrainJobs as jobs of kubeflow.org."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import ALL_VERSIONS
from trainshed.local.output import printable
from trainshed.manifests import writer
from trainshed.manifests.manifest import Manifest
from trainshed.trainjob import from_v1
from trainshed.trainjob.losses import Conversion, NotConvertible

from . import sources

TRAINJOB = "TrainJob"


@click.command()
@sources.filename
@sources.recursive
@click.option("--to", "kind", default=TRAINJOB, type=click.Choice((TRAINJOB,)), help="Kind of the objects to print.")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything is lost.")
@click.option("--output", "form", type=click.Choice(("yaml", "json")), default="yaml", help="Form of the objects.")
def convert(files: tuple[str, ...], *, recursive: bool, kind: str, strict: bool, form: str) -> None:
    """Print jobs as TrainJobs of Kubeflow Trainer, each with a runtime.

    What is lost stands on standard error: the field, what becomes of it, and what to do. Nothing is written to a
    cluster. The exit code is 1 if a job is invalid or cannot be converted, or if something is lost under --strict.
    """
    del kind
    found = sources.selected(files, recursive=recursive)
    conversions = [_converted(manifest) for manifest in found.jobs]
    sources.print_left_out(found.others)
    done = [conversion for conversion in conversions if conversion is not None]
    _print([document for conversion in done for document in conversion.documents], form)
    lost = any(loss.serious for conversion in done for loss in conversion.losses)
    sys.exit(1 if len(done) < len(conversions) or (strict and lost) else 0)


def _converted(manifest: Manifest) -> Conversion | None:
    """Return a job as a TrainJob, after printing what is lost; None after printing why it cannot be one."""
    created = sources.rendered(manifest, "default", JobDefaults())
    if created is None:
        return None
    document = rendering.without_nulls(manifest.document)
    try:
        conversion = from_v1.convert(document, created.job, ALL_VERSIONS[manifest.head])
    except NotConvertible as error:
        click.echo(
            printable(f"{manifest.place_of(error.path)}: {created.job.kind} {created.job.name}: {error}"), err=True
        )
        return None
    print_losses(f"{created.job.kind} {created.job.name}", conversion)
    return conversion


def print_losses(name: str, conversion: Conversion) -> None:
    """Print what a conversion does not carry over, what is lost first."""
    for loss in sorted(conversion.losses, key=lambda loss: not loss.serious):
        click.echo(printable(f"{loss.word}: {name}: {loss.path}: {loss.what}; {loss.advice}"), err=True)


def _print(documents: Iterable[dict[str, Any]], form: str) -> None:
    if form == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}, indent=2))
    else:
        click.echo(writer.write(documents), nl=False)
