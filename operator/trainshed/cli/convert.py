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
from trainshed.rendering import Selection
from trainshed.trainjob import from_v1, reading
from trainshed.trainjob.losses import Conversion, NotConvertible

from . import sources, trainjobs

TRAINJOB = "TrainJob"
#: The kinds that a TrainJob may become.
KINDS = ("PyTorchJob", "JAXJob", "XGBoostJob", "MPIJob")


@click.command()
@sources.filename
@sources.recursive
@click.option(
    "--to",
    "kind",
    default=None,
    type=click.Choice((TRAINJOB, *KINDS)),
    help="Kind of the result (default: TrainJob, and of a TrainJob the kind that fits its runtime).",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if anything is lost.")
@click.option("--output", "form", type=click.Choice(("yaml", "json")), default="yaml", help="Form of the objects.")
def convert(files: tuple[str, ...], *, recursive: bool, kind: str | None, strict: bool, form: str) -> None:
    """Print jobs as TrainJobs of Kubeflow Trainer, each with a runtime, and TrainJobs as jobs.

    What is lost stands on standard error: the field, what becomes of it, and what to do. Nothing is written to a
    cluster. The exit code is 1 if a job is invalid or cannot be converted, or if something is lost under --strict.
    """
    found = sources.selected(files, recursive=recursive, also=_with_trainjobs)
    runtimes = [item.document for item in found.others if item.head in reading.HEADS]
    conversions = [_converted(manifest, runtimes, kind or "") for manifest in found.jobs]
    sources.print_left_out(item for item in found.others if item.head not in reading.HEADS)
    done = [conversion for conversion in conversions if conversion is not None]
    _print([document for conversion in done for document in conversion.documents], form)
    lost = any(loss.serious for conversion in done for loss in conversion.losses)
    sys.exit(1 if len(done) < len(conversions) or (strict and lost) else 0)


def _with_trainjobs(found: Selection) -> Selection:
    others = tuple(item for item in found.others if item.head != reading.TRAINJOB)
    return Selection((*found.jobs, *trainjobs.among(found)), others)


def _converted(manifest: Manifest, runtimes: list[dict[str, Any]], kind: str) -> Conversion | None:
    """Return what a job becomes, after printing what is lost; None after printing why it cannot be converted."""
    if manifest.head == reading.TRAINJOB:
        found = trainjobs.converted(manifest, runtimes, "default", "" if kind == TRAINJOB else kind)
        made = [Manifest(document, f"{manifest.place}, as a job") for document in found.documents] if found else []
        valid = [sources.rendered(item, "default", JobDefaults(), with_pods=True) is not None for item in made]
        return found if all(valid) else None
    created = sources.rendered(manifest, "default", JobDefaults())
    if created is None:
        return None
    name = f"{created.job.kind} {created.job.name}"
    document = rendering.without_nulls(manifest.document)
    if kind not in ("", TRAINJOB):
        raise click.ClickException(printable(f"{name} becomes a {TRAINJOB}, and not a {kind}"))
    try:
        conversion = from_v1.convert(document, created.job, ALL_VERSIONS[manifest.head])
    except NotConvertible as error:
        click.echo(printable(f"{manifest.place_of(error.path)}: {name}: {error}"), err=True)
        return None
    trainjobs.print_losses(name, conversion)
    return conversion


def _print(documents: Iterable[dict[str, Any]], form: str) -> None:
    if form == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}, indent=2))
    else:
        click.echo(writer.write(documents), nl=False)
