"""`trainshed delete`: delete jobs with their pods."""

from __future__ import annotations

import asyncio

import click

from trainshed.api.job import Document
from trainshed.client import ApiError
from trainshed.client.job_reader import JobKind
from trainshed.job_actions import JobActions
from trainshed.views.rows import full_name

from .connection import Cluster, ClusterOptions, cluster_options, run, sentence, warn
from .job_changes import dry_run_option, for_each
from .job_names import JOB
from .parameters import duration

#: The seconds between two looks.
LOOK = 1.0


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@dry_run_option
@click.option("--wait", is_flag=True, help="Wait until the jobs and their pods are gone.")
@click.option("--timeout", type=duration, help="How long to wait, such as 90s or 5m (default: without end).")
def delete(
    jobs: tuple[str, ...], *, options: ClusterOptions, is_dry_run: bool, wait: bool, timeout: float | None
) -> None:
    """Delete jobs with their pods.

    JOBS are names (mnist), kinds and names (pytorchjob/mnist), or @latest for the job that was created last.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    run(options, lambda cluster: _delete(cluster, jobs, timeout, waits=wait and not is_dry_run, is_dry_run=is_dry_run))


async def _delete(
    cluster: Cluster, jobs: tuple[str, ...], seconds: float | None, *, waits: bool, is_dry_run: bool
) -> int:
    actions = JobActions(cluster.reader, warn, is_dry_run=is_dry_run)

    async def act(job: Document, kind: JobKind) -> str:
        deleted = await actions.delete(job, kind)
        if waits:
            try:
                async with asyncio.timeout(seconds):
                    await _until_gone(cluster, job, kind)
            except ApiError as error:
                said = f"{full_name(job)} is deleted, but it is not known whether its pods are gone: {sentence(error)}"
                raise click.ClickException(said) from error
            except TimeoutError:
                raise click.ClickException(f"{full_name(job)} is being deleted; its pods are not gone yet") from None
        return deleted

    return await for_each(cluster, jobs, act, is_dry_run=is_dry_run)


async def _until_gone(cluster: Cluster, job: Document, kind: JobKind) -> None:
    metadata = job["metadata"]
    while True:
        found = await cluster.reader.job(kind, metadata["namespace"], metadata["name"])
        is_gone = found is None or found["metadata"]["uid"] != metadata["uid"]
        if is_gone and not await cluster.reader.pods(job):
            return
        await asyncio.sleep(LOOK)
