"""`trainshed wait`: wait until a job is in a state; the exit code says whether it is."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import click

from trainshed.api import status_codec
from trainshed.api.job import Document
from trainshed.api.status import ConditionType
from trainshed.client.job_reader import Jobs, NoSuchJob
from trainshed.client.job_watch import job_changes
from trainshed.views import rows

from .connection import Cluster, ClusterOptions, cluster_options, run, warn
from .job_names import JOB
from .parameters import duration

#: The exit codes: the job is in the state, it has ended otherwise, and the time is over.
REACHED, ENDED, LATE = 0, 1, 2
OVER = (ConditionType.SUCCEEDED, ConditionType.FAILED)
STATES = [str(kind) for kind in ConditionType]
DELETED = "Deleted"


#: How kubectl wait writes a condition, and that an object is deleted.
CONDITION, TRUE, DELETE = "condition=", "=true", "delete"


class AwaitedState(click.Choice[str]):
    """A state, also as kubectl wait writes it: `condition=Succeeded`, `delete`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the state as Kubernetes writes it."""
        text = value.lower()
        name = text.removeprefix(CONDITION).removesuffix(TRUE) if text.startswith(CONDITION) else text
        return super().convert(DELETED if name == DELETE else name, param, ctx)


@click.command()
@click.argument("job", type=JOB)
@cluster_options
@click.option(
    *("--for", "wanted"),
    default=str(ConditionType.SUCCEEDED),
    show_default=True,
    type=AwaitedState([*STATES, DELETED], case_sensitive=False),
    help="The state to wait for, also as for kubectl wait: condition=Succeeded, delete.",
)
@click.option("--timeout", type=duration, help="How long to wait, such as 90s, 30m or 2h (default: without end).")
def wait(job: str, *, options: ClusterOptions, wanted: str, timeout: float | None) -> None:
    """Wait until a job is in a state, and say how it went.

    The exit code is 0 if it is, 1 if the job has ended otherwise or is gone, and 2 if the time is over.
    """
    run(options, lambda cluster: _wait(cluster, job, wanted, timeout))


async def _wait(cluster: Cluster, name: str, wanted: str, seconds: float | None) -> int:
    document, kind = await cluster.reader.find(cluster.namespace, name)
    last, uid = document, document["metadata"]["uid"]
    wanted_jobs = Jobs([kind], cluster.namespace, {"fieldSelector": f"metadata.name={document['metadata']['name']}"})
    follow = job_changes(cluster.reader, wanted_jobs, lambda job, _: job, {(kind.kind, uid): document}, warn)
    try:
        async with asyncio.timeout(seconds), aclosing(follow) as changes:
            async for change in changes:
                is_same = change.item["metadata"].get("uid") == uid
                last = change.item if is_same else last
                if change.deleted or not is_same:
                    click.echo(f"{rows.full_name(document)} is deleted", err=wanted != DELETED)
                    return REACHED if wanted == DELETED else ENDED
                if (code := _code(change.item, wanted)) is not None:
                    click.echo(rows.in_one_sentence(change.item), err=code != REACHED)
                    return code
    except TimeoutError:
        late = f"it is not {wanted} after {seconds or 0:g} s, the time of --timeout"
        click.echo(f"{rows.in_one_sentence(last).rstrip('.')}; {late}", err=True)
        return LATE
    raise NoSuchJob("the watch has ended")


def _code(job: Document, wanted: str) -> int | None:
    """Return the exit code if the wait is over: a job that has ended otherwise will not be in the state any more."""
    status = status_codec.parse_status(job)
    if any(condition.true and str(condition.type) == wanted for condition in status.conditions):
        return REACHED
    return ENDED if status.over and wanted != DELETED else None
