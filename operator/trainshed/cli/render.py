"""`trainshed render`: print every object that the operator creates for a job, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
import msgspec

from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document
from trainshed.manifests import writer

from . import sources, trainjobs
from .parameters import one_of


@click.command()
@sources.filename
@sources.recursive
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of jobs that do not set it.")
@click.option(
    "--cluster-domain",
    default="",
    envvar="CUSTOM_CLUSTER_DOMAIN",
    help="Cluster domain of the Service names in TF_CONFIG and of search domains.",
)
@click.option(
    "--default-services",
    "services",
    **one_of(JobDefaults().services),
    help="Headless Services of jobs that do not choose, as configured for the operator.",
)
@click.option(
    "--kueue-integration",
    "kueue",
    **one_of(JobDefaults().kueue),
    help="What Kueue admits of jobs in a queue that do not choose, as configured for the operator.",
)
@click.option(
    "--gang-scheduler-name",
    "gang_scheduler",
    default="",
    help="Gang scheduler of the pods, as configured for the operator (default: none).",
)
@click.option(
    "--progress-server",
    default="",
    help="Host and port to which pods report the progress of their trainings, as configured for the operator.",
)
def render(files: tuple[str, ...], *, recursive: bool, namespace: str, **defaults: str) -> None:
    """Print the objects that the operator creates for jobs.

    A suspended job is printed as if it were resumed. A job that the API server would refuse, or whose pods it would
    refuse, is reported instead, and the exit code is 1. Other objects in the files are named on standard error.
    Of a TrainJob the job of kubeflow.org is printed to which `trainshed convert` converts it.
    """
    found = sources.selected(files, recursive=recursive, also=lambda all_: trainjobs.as_jobs(all_, namespace))
    valid = True
    job_defaults = msgspec.convert(defaults, JobDefaults)
    for manifest in found.jobs:
        found_objects = sources.rendered(manifest, namespace, job_defaults, with_pods=True)
        _print(found_objects or ())
        valid = valid and found_objects is not None
    sources.print_left_out(found.others)
    sys.exit(0 if valid else 1)


def _print(objects: Iterable[Document]) -> None:
    if not sys.stdout.isatty():
        for item in objects:
            sys.stdout.write(writer.write([item]))
        return
    from rich.console import Console  # noqa: PLC0415 - it takes long, and only terminals need it
    from rich.syntax import Syntax  # noqa: PLC0415

    console = Console()
    for item in objects:
        text = writer.write([item]).rstrip()
        console.print(Syntax(text, "yaml", theme="ansi_dark", background_color="default", word_wrap=True))
