"""`trainshed top`: what the replicas of a job request, may have at most, and use."""

from __future__ import annotations

import click

from trainshed.client import ApiError, Forbidden
from trainshed.views import usage
from trainshed.views.rows import with_namespace

from . import tables
from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB

#: Why there are no figures of use.
NO_METRICS = "No use is shown: the cluster does not serve metrics.k8s.io, which metrics-server does."


@click.command()
@click.argument("job", type=JOB)
@cluster_options
def top(job: str, *, options: ClusterOptions) -> None:
    """Show the CPU, memory and devices that the replicas of a job request, the limits, and what they use.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last. What is
    used comes from metrics-server, as with kubectl top; it does not know GPUs.
    """
    run(options, lambda cluster: _top(cluster, job))


async def _top(cluster: Cluster, name: str) -> int:
    document, _ = await cluster.reader.find(cluster.namespace, name)
    pods = await cluster.reader.pods_with_resources(document)
    if not pods:
        click.echo(f"The job has no pods: trainshed explain {with_namespace(document)} says why.", err=True)
        return 1
    try:
        metrics, problem = await cluster.reader.metrics(document), ""
    except ApiError as error:
        metrics, problem = [], f"No use is shown: {error}" if isinstance(error, Forbidden) else NO_METRICS
    tables.show(usage.COLUMNS, usage.rows(document["metadata"]["name"], pods, metrics))
    if problem:
        click.echo(problem, err=True)
    return 0
