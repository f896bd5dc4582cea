"""`trainshed explain`: the story of one job, in sentences."""

from __future__ import annotations

import asyncio

import click

from . import chapters
from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB


@click.command()
@click.argument("job", type=JOB)
@cluster_options
def explain(job: str, *, options: ClusterOptions) -> None:
    """Say what has become of a job: what was asked for, what happened, what it waits for, and what to do.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _explain(cluster, job))


async def _explain(cluster: Cluster, name: str) -> int:
    document, kind = await cluster.reader.find(cluster.namespace, name)
    # The planner reads the job as the operator does. Its models take a while to import, and are not needed before.
    from trainshed.client.kueue_reader import read_queue  # noqa: PLC0415
    from trainshed.views import story  # noqa: PLC0415

    from .job_facts import read_absent, read_facts, read_failed_probe  # noqa: PLC0415

    facts, queue = await asyncio.gather(
        read_facts(cluster.reader, document, kind), read_queue(cluster.reader, document)
    )
    probe, absent = await read_failed_probe(cluster.reader, facts), await read_absent(cluster.reader, facts)
    chapters.show(story.tell(facts, document, story.Beside(queue, probe, absent)))
    return 0
