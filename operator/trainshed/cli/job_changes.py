"""What commands that change jobs share: the jobs are found and named first, and changed only as they were read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import click

from trainshed.api.foreign_text import lines, one_line
from trainshed.api.job import Document
from trainshed.client import ApiError
from trainshed.client.job_reader import LATEST, JobKind, NoSuchJob
from trainshed.job_actions import NotPossible
from trainshed.views.rows import full_name

from .connection import Cluster, sentence

#: The most jobs that are changed at a time.
AT_ONCE = 16
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
            except (ApiError, NoSuchJob, NotPossible) as error:
                click.echo(f"Error: {sentence(error)}", err=True)
            except click.ClickException as error:
                click.echo(f"Error: {lines(error.message)}", err=True)
            else:
                click.echo(one_line(f"{done}{DRY_RUN if is_dry_run else ''}"))
                return True
            return False

    results = await asyncio.gather(*(attempt(job, kind) for job, kind in found.values()))
    return 0 if all(results) else 1
