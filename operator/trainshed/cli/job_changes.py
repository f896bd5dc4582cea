"""What commands that change jobs share: the jobs are found and named first, and changed only as they were read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from trainshed.api.foreign_text import lines, one_line
from trainshed.api.job import Document
from trainshed.client import ApiError
from trainshed.client.job_reader import LATEST, JobKind, NoSuchJob
from trainshed.job_actions import JobActions, NotPossible
from trainshed.views.rows import full_name

from .connection import Cluster, sentence, warn

#: The most jobs that are changed at a time.
AT_ONCE = 16
#: What kubectl says after what was not done.
DRY_RUN = " (server dry run)"

dry_run_option = click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Only ask the server, with its admission and your rights."
)
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Manner:
    """How jobs are changed: only in a dry run, or only the job that has this resourceVersion; empty means any."""

    is_dry_run: bool
    version: str = ""

    def actions(self, cluster: Cluster) -> JobActions:
        """Return what changes jobs so, and tells the user what matters beside the result."""
        return JobActions(cluster.reader, warn, is_dry_run=self.is_dry_run, only_as_read=bool(self.version))


def change_options(command: CommandT) -> CommandT:
    """Add the options of each change; the command gets them as `manner`."""

    @wraps(command)
    def with_options(*args: Any, is_dry_run: bool, version: str, **others: Any) -> Any:  # noqa: ANN401 - click's
        return command(*args, manner=Manner(is_dry_run, version), **others)

    version = click.option(
        "--resource-version", "version", default="", help="Only if the job still has this resourceVersion."
    )
    return dry_run_option(version(with_options))  # type: ignore[return-value] # the same command with more options


#: Does something to one job, and returns what was done, in kubectl's words.
Act = Callable[[Document, JobKind], Awaitable[str]]


async def for_each(cluster: Cluster, words: Sequence[str], act: Act, manner: Manner) -> int:
    """Find all jobs, and then do something to each, whatever becomes of the others; return the exit code.

    Nothing is done if one of the jobs is not found, or is not in the version that is asked for.
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
    if manner.version:
        _check(found, manner.version)
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
                click.echo(one_line(f"{done}{DRY_RUN if manner.is_dry_run else ''}"))
                return True
            return False

    results = await asyncio.gather(*(attempt(job, kind) for job, kind in found.values()))
    return 0 if all(results) else 1


def _check(found: Mapping[str, tuple[Document, JobKind]], version: str) -> None:
    """Raise a `ClickException` unless there is one job, in this version."""
    if len(found) > 1:
        raise click.UsageError("--resource-version is that of a single job")
    for job, _ in found.values():
        if job["metadata"]["resourceVersion"] != version:
            now = job["metadata"]["resourceVersion"]
            raise click.ClickException(one_line(f"{full_name(job)} has changed: its resourceVersion is {now} now"))
