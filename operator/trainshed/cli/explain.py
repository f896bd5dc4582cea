"""`trainshed explain`: the stories of jobs, in sentences."""

from __future__ import annotations

import click

from trainshed.client import ApiError, Unavailable
from trainshed.client.job_reader import NoSuchJob

from . import chapters
from .connection import Cluster, ClusterOptions, cluster_options, run, sentence, warn
from .job_names import JOB


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
def explain(jobs: tuple[str, ...], *, options: ClusterOptions) -> None:
    """Say what has become of jobs: what was asked for, what happened, what they wait for, and what to do.

    A job is a name (mnist), a kind and a name (pytorchjob/mnist, or pytorchjob mnist), or @latest for the one that was
    created last. The exit code is 1 if one of the jobs cannot be read; the others are explained all the same.
    """
    run(options, lambda cluster: _explain(cluster, jobs))


async def _explain(cluster: Cluster, words: tuple[str, ...]) -> int:
    names, code = list(dict.fromkeys(await cluster.reader.names(words))), 0
    for number, name in enumerate(names):
        click.echo("\n" * (2 * bool(number)), nl=False)
        try:
            await _story(cluster, name)
        except (ApiError, NoSuchJob) as error:
            if len(names) == 1 or isinstance(error, Unavailable):
                raise
            warn(f"Error: {sentence(error)}")
            code = 1
    return code


async def _story(cluster: Cluster, name: str) -> None:
    document, kind = await cluster.reader.find(cluster.namespace, name)
    # The planner reads the job as the operator does. Its models take a while to import, and are not needed before.
    from trainshed.job_facts import read_story  # noqa: PLC0415

    chapters.show(await read_story(cluster.reader, document, kind))
