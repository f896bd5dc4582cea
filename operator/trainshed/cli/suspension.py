"""`trainshed suspend`, `resume` and `restart`: what runPolicy.suspend does to the pods of a job."""

from __future__ import annotations

import click

from trainshed.api.job import Document
from trainshed.client.job_reader import JobKind
from trainshed.job_actions import JobActions

from .connection import Cluster, ClusterOptions, cluster_options, run, warn
from .job_changes import dry_run_option, for_each
from .job_names import JOB
from .parameters import duration


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@dry_run_option
def suspend(jobs: tuple[str, ...], *, options: ClusterOptions, is_dry_run: bool) -> None:
    """Delete the pods of jobs, until the jobs are resumed.

    JOBS are names (mnist), kinds and names (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _set(cluster, jobs, suspended=True, is_dry_run=is_dry_run))


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@dry_run_option
def resume(jobs: tuple[str, ...], *, options: ClusterOptions, is_dry_run: bool) -> None:
    """Create the pods of suspended jobs.

    JOBS are names (mnist), kinds and names (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _set(cluster, jobs, suspended=False, is_dry_run=is_dry_run))


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@dry_run_option
@click.option(
    "--timeout", default="60s", type=duration, show_default=True, help="How long the operator has to delete the pods."
)
def restart(jobs: tuple[str, ...], *, options: ClusterOptions, is_dry_run: bool, timeout: float) -> None:
    """Replace all pods of jobs, as by suspend and resume.

    It counts against no limit, and activeDeadlineSeconds begins again. If the command is interrupted between the two,
    the job stays suspended, and a second restart goes on.
    """
    run(options, lambda cluster: restart_all(cluster, jobs, timeout, is_dry_run=is_dry_run))


async def restart_all(cluster: Cluster, jobs: tuple[str, ...], seconds: float, *, is_dry_run: bool) -> int:
    """Restart jobs; return the exit code."""
    actions = JobActions(cluster.reader, warn, is_dry_run=is_dry_run)

    async def act(job: Document, kind: JobKind) -> str:
        return await actions.restart(job, kind, seconds)

    return await for_each(cluster, jobs, act, is_dry_run=is_dry_run)


async def _set(cluster: Cluster, jobs: tuple[str, ...], *, suspended: bool, is_dry_run: bool) -> int:
    actions = JobActions(cluster.reader, warn, is_dry_run=is_dry_run)

    async def act(job: Document, kind: JobKind) -> str:
        return await actions.set_suspended(job, kind, suspended=suspended)

    return await for_each(cluster, jobs, act, is_dry_run=is_dry_run)
