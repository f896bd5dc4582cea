"""What commands that change jobs share: the jobs are found and named first, and changed only as they were read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import click

from trainshed.api import status_codec
from trainshed.api.coerce import as_mapping
from trainshed.api.foreign_text import lines, one_line
from trainshed.api.job import KUEUE_PREFIX, Document
from trainshed.client import ApiError, Conflict
from trainshed.client.job_reader import LATEST, JobKind, NoSuchJob
from trainshed.client.job_writer import JobWriter
from trainshed.views.rows import full_name

from .connection import Cluster, sentence

#: The most jobs that are changed at a time.
AT_ONCE = 16
#: How often a change is written: the operator writes the status of a job meanwhile, which is a conflict.
TRIES = 5
#: What kubectl says after what was not done.
DRY_RUN = " (server dry run)"

dry_run_option = click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Only ask the server, with its admission and your rights."
)
#: Does something to one job, and returns what was done, in kubectl's words.
Act = Callable[[Document, JobKind], Awaitable[str]]


async def for_each(cluster: Cluster, words: Sequence[str], act: Act, *, is_dry_run: bool) -> int:
    """Find all jobs, and then do something to each, whatever becomes of the others; return the exit code.

    Nothing is done if one of the jobs is not found.
    """
    found: dict[str, tuple[Document, JobKind]] = {}
    for word in (names := await cluster.reader.names(words)):
        try:
            job, kind = await cluster.reader.find(cluster.namespace, word)
        except NoSuchJob as error:
            raise NoSuchJob(f"{error}; nothing is done to the others" if len(names) > 1 else str(error)) from error
        found.setdefault(job["metadata"]["uid"], (job, kind))
        if word.endswith(LATEST):
            click.echo(f"{word} is {full_name(job)}", err=True)
    turn = asyncio.Semaphore(AT_ONCE)

    async def attempt(job: Document, kind: JobKind) -> bool:
        async with turn:
            try:
                done = await act(job, kind)
            except (ApiError, NoSuchJob) as error:
                click.echo(f"Error: {sentence(error)}", err=True)
            except click.ClickException as error:
                click.echo(f"Error: {lines(error.message)}", err=True)
            else:
                click.echo(one_line(f"{done}{DRY_RUN if is_dry_run else ''}"))
                return True
            return False

    results = await asyncio.gather(*(attempt(job, kind) for job, kind in found.values()))
    return 0 if all(results) else 1


async def changed(
    cluster: Cluster, writer: JobWriter, job: Document, kind: JobKind, patch: Callable[[Document], Document]
) -> Document:
    """Merge what `patch` returns for a job into it; after a conflict for the job as it is then.

    Raises an `ApiError`, `NoSuchJob` if it is gone, and `ClickException` if it does not run any more.
    """
    for _ in range(TRIES - 1):
        try:
            return await writer.patch(kind, job, patch(active(job)))
        except Conflict:
            job = await read_again(cluster, job, kind)
    return await writer.patch(kind, job, patch(active(job)))


async def read_again(cluster: Cluster, job: Document, kind: JobKind) -> Document:
    """Return a job as it is now; raises `NoSuchJob` if it is gone."""
    metadata = job["metadata"]
    found = await cluster.reader.job(kind, metadata["namespace"], metadata["name"])
    if found is None or found["metadata"]["uid"] != metadata["uid"]:
        raise NoSuchJob(f"{full_name(job)} is deleted")
    return found


def active(job: Document) -> Document:
    """Return the job; raises `ClickException` if it is over or being deleted: the operator does not act then."""
    status = status_codec.parse_status(job)
    if status.over:
        raise click.ClickException(
            f"{full_name(job)} has ended ({status.current_state}) and does not run again: delete and submit it"
        )
    if "deletionTimestamp" in job["metadata"]:
        raise click.ClickException(f"{full_name(job)} is being deleted")
    return job


async def queued_by(cluster: Cluster, job: Document) -> tuple[bool, Document | None]:
    """Return whether Kueue starts and stops a job, and the Workload that it has made for it, if it may be read."""
    workload = await cluster.reader.workload(job)
    labels = as_mapping(job["metadata"].get("labels"))
    return bool(workload) or f"{KUEUE_PREFIX}queue-name" in labels, workload
