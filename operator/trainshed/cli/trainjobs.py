"""TrainJobs among the objects of files, as jobs of kubeflow.org, with what that leaves out on standard error."""

from __future__ import annotations

import sys

import click

from trainshed.local.output import printable
from trainshed.manifests.manifest import Manifest
from trainshed.manifests.nodes import BadManifest
from trainshed.rendering import Selection
from trainshed.trainjob import reading
from trainshed.trainjob.losses import Conversion, NotConvertible


def as_jobs(found: Selection, namespace: str) -> Selection:
    """Return a selection with its TrainJobs as jobs of kubeflow.org; end the program if one cannot be such a job.

    Raises:
        BadManifest: A TrainJob or a runtime is of another version.
    """
    jobs = among(found)
    runtimes = [item.document for item in found.others if item.head in reading.HEADS]
    pairs = [(item, converted(item, runtimes, namespace, "")) for item in jobs]
    made = [Manifest(pair[1].documents[0], pair[0].place) for pair in pairs if pair[1] is not None]
    if len(made) < len(pairs):
        sys.exit(1)
    others = tuple(item for item in found.others if item.head not in (reading.TRAINJOB, *reading.HEADS))
    return Selection((*found.jobs, *made), others if jobs else found.others)


def among(found: Selection) -> list[Manifest]:
    """Return the TrainJobs of a selection; raises `BadManifest` for one, or a runtime, of another version."""
    for item in found.others:
        version, kind = item.head
        known = kind in (reading.TRAINJOB[1], *reading.KINDS) and version.partition("/")[0] == reading.GROUP
        if known and version != reading.VERSION:
            raise BadManifest(f"{item.place}: {item}: {kind} is read in {reading.VERSION} alone")
    return [item for item in found.others if item.head == reading.TRAINJOB]


def converted(item: Manifest, runtimes: list[dict[str, object]], namespace: str, kind: str) -> Conversion | None:
    """Return a TrainJob as a job of kubeflow.org, after printing what is lost; None after printing what is wrong."""
    name = printable(f"TrainJob {item.metadata.get('name') or '(no name)'}")
    try:
        conversion = reading.converted(item.document, runtimes, namespace, kind)
    except NotConvertible as error:
        click.echo(printable(f"{item.place_of(error.path)}: {name}: {error}"), err=True)
        return None
    print_losses(name, conversion)
    return conversion


def print_losses(name: str, conversion: Conversion) -> None:
    """Print what a conversion does not carry over, what is lost first."""
    for loss in sorted(conversion.losses, key=lambda loss: not loss.serious):
        advice = "" if loss.advice == "nothing" else f"; {loss.advice}"
        click.echo(printable(f"{loss.word}: {name}: {loss.path}: {loss.what}{advice}"), err=True)
