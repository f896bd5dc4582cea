"""`trainshed suspend`, `resume` and `restart`: what runPolicy.suspend does to the pods of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import click

from trainshed.api import status_codec
from trainshed.api.coerce import as_mapping
from trainshed.api.job import Document
from trainshed.api.status import ConditionType
from trainshed.client import ApiError, Unavailable
from trainshed.client.job_reader import JobKind, Jobs, NoSuchJob
from trainshed.client.job_watch import job_changes
from trainshed.client.job_writer import JobWriter
from trainshed.views import refusals
from trainshed.views.rows import full_name, with_namespace

from .connection import Cluster, ClusterOptions, cluster_options, run, warn
from .job_changes import active, changed, dry_run_option, for_each, queued_by
from .job_names import JOB
from .parameters import duration

SUSPEND, RESUME = ({"spec": {"runPolicy": {"suspend": value}}} for value in (True, False))


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

    async def work(cluster: Cluster) -> int:
        restarting = Restarting(cluster, timeout, is_dry_run=is_dry_run)
        return await for_each(cluster, jobs, restarting.act, is_dry_run=is_dry_run)

    run(options, work)


async def _set(cluster: Cluster, jobs: tuple[str, ...], *, suspended: bool, is_dry_run: bool) -> int:
    writer, done = JobWriter(cluster.rest, dry_run=is_dry_run), "suspended" if suspended else "resumed"

    async def act(job: Document, kind: JobKind) -> str:
        if suspended or is_suspended(active(job)):
            await _refuse_queued(cluster, job, refusals.kueue_decides if suspended else refusals.kueue_starts)
        if is_suspended(active(job)) is suspended:
            return f"{full_name(job)} {'is suspended already' if suspended else 'is not suspended'}"
        await changed(cluster, writer, job, kind, lambda _: SUSPEND if suspended else RESUME)
        return f"{full_name(job)} {done}"

    return await for_each(cluster, jobs, act, is_dry_run=is_dry_run)


class Restarting:
    """Suspends a job, waits until the operator has noted it, and resumes it: its pods are of a new attempt then."""

    def __init__(self, cluster: Cluster, seconds: float, *, is_dry_run: bool) -> None:
        self._cluster, self._seconds, self._is_dry_run = cluster, seconds, is_dry_run
        self._writer = JobWriter(cluster.rest, dry_run=is_dry_run)

    async def act(self, job: Document, kind: JobKind) -> str:
        """Restart a job, or finish a restart that was interrupted."""
        name = full_name(job)
        await _refuse_queued(self._cluster, job, refusals.kueue_decides)
        if is_suspended(active(job)):
            await changed(self._cluster, self._writer, job, kind, lambda _: RESUME)
            return f"{name} was suspended, and is resumed"
        if self._is_dry_run:
            await changed(self._cluster, self._writer, job, kind, lambda _: SUSPEND)
            return f"{name} restarted"
        suspended = None
        try:
            suspended = await changed(self._cluster, self._writer, job, kind, lambda _: SUSPEND)
            noted = await self._noted(suspended, kind)
            # Also if the operator does not act: there is nothing to do then when it comes back.
            await changed(self._cluster, self._writer, suspended, kind, lambda _: RESUME)
        except (asyncio.CancelledError, ApiError) as error:
            if suspended or isinstance(error, (asyncio.CancelledError, Unavailable)):
                is_ = "is" if suspended else "may be"
                click.echo(
                    f"{name} {is_} suspended and not resumed yet: trainshed restart {with_namespace(job)} goes on",
                    err=True,
                )
            raise
        if not noted:
            raise click.ClickException(f"{name} is not restarted: the operator did not act in time. Does it run?")
        return f"{name} restarted"

    async def _noted(self, job: Document, kind: JobKind) -> bool:
        """Wait until the status says that the job is suspended; return False if the time is over.

        The status has the new attempt then, and every pod of an older one is deleted also after the resume.
        """
        metadata = job["metadata"]
        wanted = Jobs([kind], metadata["namespace"], {"fieldSelector": f"metadata.name={metadata['name']}"})
        known = {(kind.kind, metadata["uid"]): job}
        follow = job_changes(self._cluster.reader, wanted, lambda found, _: found, known, warn)
        try:
            async with asyncio.timeout(self._seconds), aclosing(follow) as changes:
                async for change in changes:
                    if change.deleted or change.job["metadata"]["uid"] != metadata["uid"]:
                        raise NoSuchJob(f"{full_name(job)} is deleted")
                    if status_codec.parse_status(active(change.job)).true(ConditionType.SUSPENDED):
                        return True
        except TimeoutError:
            pass
        return False


def is_suspended(job: Document) -> bool:
    """Return whether the spec of a job says that it is suspended."""
    return as_mapping(as_mapping(job.get("spec")).get("runPolicy")).get("suspend") is True


async def _refuse_queued(cluster: Cluster, job: Document, why: Callable[[str, str, Document | None], str]) -> None:
    """Raise `ClickException` for a job that Kueue starts and stops: it takes such a change back at once."""
    is_queued, workload = await queued_by(cluster, job)
    if is_queued:
        raise click.ClickException(why(full_name(job), job["metadata"]["namespace"], workload))
