"""`trainshed suspend`, `resume` and `restart`: what runPolicy.suspend does to the pods of a job."""

from __future__ import annotations

import click

from trainshed.api.job import Document
from trainshed.client.job_reader import JobKind

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_changes import Manner, change_options, for_each
from .job_names import JOB
from .parameters import duration


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@change_options
def suspend(jobs: tuple[str, ...], *, options: ClusterOptions, manner: Manner) -> None:
    """Delete the pods of jobs, until the jobs are resumed.

    JOBS are names (mnist), kinds and names (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _set(cluster, jobs, suspended=True, manner=manner))


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@change_options
def resume(jobs: tuple[str, ...], *, options: ClusterOptions, manner: Manner) -> None:
    """Create the pods of suspended jobs.

    JOBS are names (mnist), kinds and names (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _set(cluster, jobs, suspended=False, manner=manner))


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@change_options
@click.option(
    "--timeout", default="60s", type=duration, show_default=True, help="How long the operator has to delete the pods."
)
def restart(jobs: tuple[str, ...], *, options: ClusterOptions, manner: Manner, timeout: float) -> None:
    """Replace all pods of jobs, as by suspend and resume.

    It counts against no limit, and activeDeadlineSeconds begins again. If the command is interrupted between the two,
    the job stays suspended, and a second restart goes on.
    """
    run(options, lambda cluster: restart_all(cluster, jobs, timeout, manner=manner))


async def restart_all(cluster: Cluster, jobs: tuple[str, ...], seconds: float, *, manner: Manner) -> int:
    """Restart jobs; return the exit code."""
    actions = manner.actions(cluster)

    async def act(job: Document, kind: JobKind) -> str:
        return await actions.restart(job, kind, seconds)

    return await for_each(cluster, jobs, act, manner)


async def _set(cluster: Cluster, jobs: tuple[str, ...], *, suspended: bool, manner: Manner) -> int:
    actions = manner.actions(cluster)

    async def act(job: Document, kind: JobKind) -> str:
        return await actions.set_suspended(job, kind, suspended=suspended)

    return await for_each(cluster, jobs, act, manner)
