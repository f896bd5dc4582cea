"""`trainshed events`: the Events about a job and its pods, the oldest first."""

from __future__ import annotations

import click

from trainshed.process import Clock
from trainshed.views import rows

from . import tables
from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB


@click.command()
@click.argument("job", type=JOB)
@cluster_options
def events(job: str, *, options: ClusterOptions) -> None:
    """Show the Events about a job and its pods, the newest last.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last. API
    servers keep Events for an hour, unless they are configured otherwise.
    """
    run(options, lambda cluster: _events(cluster, job))


async def _events(cluster: Cluster, name: str) -> int:
    document, _ = await cluster.reader.find(cluster.namespace, name)
    found = await cluster.reader.events(document, await cluster.reader.pods(document))
    if found:
        tables.show(rows.EVENTS, rows.of_events(sorted(found, key=rows.event_time), Clock().now()))
    else:
        click.echo("There are no Events; the API server may have removed them already.", err=True)
    return 0
