"""`trainshed stacks`: what all ranks of a job are doing, in groups, without anything in their image."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click
import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.plan.messages.phrases import plural
from trainshed.stack_dump import MOST_THREADS
from trainshed.views import rank_stacks as view
from trainshed.views.rank_stacks import Result
from trainshed.views.rows import full_name, listed, with_namespace

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB
from .job_pods import Target, pods_of_replicas, replica_of, replica_options
from .parameters import duration
from .stack_reading import IMAGE_VARIABLE, TIMEOUT, Reader, image_of_operator, that_run


@dataclass(frozen=True, slots=True)
class StacksWanted:
    """Which replicas are read, and how."""

    replicas: tuple[str, ...]
    container: str
    image: str
    timeout: float
    whole: bool
    form: str | None


@click.command()
@click.argument("job", type=JOB)
@cluster_options
@replica_options
@click.option(
    "--image",
    default="",
    envvar=IMAGE_VARIABLE,
    help="Image with Trainshed (default: that of the operator if you may read it, else that of this version).",
)
@click.option(
    "--timeout", type=duration, default=f"{TIMEOUT:.0f}s", show_default=True, help="Give a replica up after this time."
)
@click.option("--whole", is_flag=True, help="All frames of each stack.")
@click.option("-o", "--output", "form", type=click.Choice(["json"]), help="All threads of all processes.")
def stacks(job: str, *, options: ClusterOptions, **wanted: object) -> None:
    """Show what each rank of a job is doing: its Python stack, ranks at the same place together.

    An ephemeral container in each pod reads them; the program that trains goes on. Kubernetes keeps such a container in
    the list of its pod until the pod is deleted.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _stacks(cluster, job, StacksWanted(**wanted)))  # type: ignore[arg-type] # click's types


async def _stacks(cluster: Cluster, name: str, wanted: StacksWanted) -> int:
    document, kind = await cluster.reader.find(cluster.namespace, name)
    target = Target(document, kind, wanted.container)
    all_pods = pods_of_replicas(await cluster.reader.pods(document), document, wanted.replicas)
    pods = that_run(all_pods)
    if not pods:
        click.echo(f"No replica runs: trainshed explain {with_namespace(document)} says why.", err=True)
        return 1
    click.echo(f"Reading the stacks of {plural(len(pods), 'replica')} …", err=True)
    image = wanted.image or await image_of_operator(cluster.rest)
    reader = Reader(cluster.rest, target, image, wanted.timeout, MOST_THREADS if wanted.form else 1)
    found = dict(zip((replica_of(pod, document) for pod in pods), await reader.read(pods), strict=True))
    if wanted.form:
        click.echo(json.dumps({replica: as_json(result) for replica, result in found.items()}, indent=2))
    else:
        show(document, found, len(all_pods) - len(pods), whole=wanted.whole)
    for text in reader.advice(found.values()):
        click.echo(text, err=True)
    return 0 if any(rank.frames for rank in view.ranks_in(found)) else 1


def as_json(result: Result) -> object:
    """Return a result as it is printed as JSON."""
    return {"error": one_line(str(result))} if isinstance(result, Exception) else msgspec.to_builtins(result)


def show(document: Document, found: dict[str, Result], others: int, *, whole: bool) -> None:
    """Print the groups of ranks, and then the replicas without stacks, those with the same reason together."""
    ranks = view.ranks_in(found)
    groups = view.grouped(ranks)
    if groups:
        job = f"{full_name(document)} in namespace {document['metadata']['namespace']}"
        click.echo(one_line(f"{job}: {view.headline(groups)}"))
        click.echo()
        click.echo("\n".join(view.lines(groups, whole=whole, option="--whole")))
    for reason, names in view.without_stacks(found, ranks).items():
        click.echo(f"No stack of {listed(names)}: {reason}", err=True)
    if others:
        click.echo(f"{plural(others, 'replica')} without a pod that runs.", err=True)
