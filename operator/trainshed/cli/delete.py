"""`trainshed delete`: delete jobs with their pods."""

from __future__ import annotations

import asyncio

import click

from trainshed.api.job import Document
from trainshed.client import ApiError
from trainshed.client.job_reader import JobKind
from trainshed.views.rows import full_name

from .connection import Cluster, ClusterOptions, cluster_options, run, sentence
from .job_changes import Manner, change_options, for_each
from .job_names import JOB
from .parameters import duration

#: The seconds between two reads of the jobs.
POLL_SECONDS = 1.0


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB)
@cluster_options
@change_options
@click.option("--wait", is_flag=True, help="Wait until the jobs and their pods are gone.")
@click.option("--timeout", type=duration, help="How long to wait, such as 90s or 5m (default: without end).")
def delete(
    jobs: tuple[str, ...], *, options: ClusterOptions, manner: Manner, wait: bool, timeout: float | None
) -> None:
    """Delete jobs with their pods.

    JOBS are names (mnist), kinds and names (pytorchjob/mnist), or @latest for the job that was created last.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    run(options, lambda cluster: _delete(cluster, jobs, timeout, manner=manner, waits=wait and not manner.is_dry_run))


async def _delete(
    cluster: Cluster, jobs: tuple[str, ...], seconds: float | None, *, waits: bool, manner: Manner
) -> int:
    actions = manner.actions(cluster)

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
                late = f"its pods are not gone after {seconds or 0:g} s, the time of --timeout"
                raise click.ClickException(f"{full_name(job)} is being deleted; {late}") from None
        return deleted

    return await for_each(cluster, jobs, act, manner)


async def _until_gone(cluster: Cluster, job: Document, kind: JobKind) -> None:
    metadata = job["metadata"]
    while True:
        found = await cluster.reader.job(kind, metadata["namespace"], metadata["name"])
        is_gone = found is None or found["metadata"]["uid"] != metadata["uid"]
        if is_gone and not await cluster.reader.pods(job):
            return
        await asyncio.sleep(POLL_SECONDS)
