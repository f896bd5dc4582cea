"""`trainshed submit`: create jobs from files, and follow them until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from trainshed.api import status_codec
from trainshed.api.foreign_text import one_line
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document
from trainshed.api.status import ConditionType
from trainshed.client import ApiError
from trainshed.client.job_reader import JobKind
from trainshed.client.job_writer import JobWriter
from trainshed.views.rows import full_name, in_one_sentence

from . import sources
from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_changes import DRY_RUN, dry_run_option
from .job_pods import Target
from .log_follower import Follower, LinePrinter, Wanted
from .submissions import Submission, refusal, submission


@click.command()
@sources.filename
@sources.recursive
@cluster_options
@dry_run_option
@click.option("--no-follow", is_flag=True, help="Only create the jobs.")
def submit(
    files: tuple[str, ...], *, recursive: bool, options: ClusterOptions, is_dry_run: bool, no_follow: bool
) -> None:
    """Create jobs, and print the output of their replicas until they have ended.

    The jobs are checked as by trainshed render, and by the server: if one is refused, none is created. Ctrl-C ends the
    command, and the jobs run on. The exit code is 0 if all have succeeded, and 1 if one has failed or is deleted.
    """
    found = sources.selected(files, recursive=recursive)
    sources.print_left_out(found.others)
    if found.others:
        click.echo("trainshed submit creates jobs only: kubectl apply creates what is left out", err=True)

    async def work(cluster: Cluster) -> int:
        jobs = [submission(manifest, cluster.namespace, options.namespace) for manifest in found.jobs]
        if None in [sources.rendered(job.manifest, job.namespace, JobDefaults(), with_pods=True) for job in jobs]:
            return 1
        if (is_dry_run or len(jobs) > 1) and not await _asked(cluster, jobs, prints=is_dry_run):
            return 1
        return 0 if is_dry_run else await _submit(cluster, jobs, follows=not no_follow)

    run(options, work)


async def _asked(cluster: Cluster, jobs: Sequence[Submission], *, prints: bool) -> bool:
    """Return whether the server would create all jobs, after saying what it would refuse."""
    writer, accepted = JobWriter(cluster.rest, dry_run=True), True
    for job in jobs:
        try:
            created = await writer.create(job.kind, job.namespace, job.document())
        except ApiError as error:
            click.echo(_refusal(job, error, is_dry_run=True), err=True)
            accepted = False
        else:
            if prints:
                click.echo(one_line(f"{full_name(created)} created{DRY_RUN}"))
    return accepted


async def _submit(cluster: Cluster, jobs: Sequence[Submission], *, follows: bool) -> int:
    """Create the jobs, and follow them; say what runs on if that is interrupted."""
    writer, created = JobWriter(cluster.rest, dry_run=False), list[tuple[Document, JobKind]]()
    try:
        for job in jobs:
            try:
                created.append((await writer.create(job.kind, job.namespace, job.document()), job.kind))
            except ApiError as error:
                click.echo(_refusal(job, error, is_dry_run=False), err=True)
                return 1
            click.echo(one_line(f"{full_name(created[-1][0])} created"), err=follows)
        return await _follow(cluster, created) if follows else 0
    except (asyncio.CancelledError, ApiError, ExceptionGroup):
        if len(created) < len(jobs):
            click.echo(f"{jobs[len(created)].manifest} may be created", err=True)
        for document, _ in created:
            name, namespace = full_name(document), document["metadata"]["namespace"]
            click.echo(f"{name} runs on: trainshed logs --follow -n {namespace} {name} prints its output", err=True)
        raise


def _refusal(job: Submission, error: ApiError, *, is_dry_run: bool) -> str:
    """Return in one line why a job is not created, and what to do."""
    return one_line(f"Error: {job.manifest.place}: {refusal(job, error, is_dry_run=is_dry_run)}")


async def _follow(cluster: Cluster, jobs: Sequence[tuple[Document, JobKind]]) -> int:
    """Print what jobs write, and the states that they reach; return the exit code."""
    several = len(jobs) > 1
    wanted = Wanted(follow=True, several=several)
    printer = LinePrinter(wanted)

    async def follow(document: Document, kind: JobKind) -> int:
        printed = ""

        def tell(job: Document) -> None:
            nonlocal printed
            state = status_codec.parse_status(job).current_state
            if state not in ("", printed):
                printed = state
                click.echo(in_one_sentence(job), err=True)

        last = await Follower(cluster, Target(document, kind, ""), wanted, printer).run(tell)
        if last is None:
            click.echo(f"{full_name(document)} is deleted", err=True)
        return 0 if last and status_codec.parse_status(last).true(ConditionType.SUCCEEDED) else 1

    return max(await asyncio.gather(*(follow(*job) for job in jobs)))
