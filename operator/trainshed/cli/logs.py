"""`trainshed logs`: the output of all replicas together, across restarts and new pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from heapq import heapify, heappop, heappush

import click

from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.views.log_lines import LogLine
from trainshed.views.rows import listed, with_namespace

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB
from .job_pods import Target, pods_of_replicas, replica_of, replica_options
from .log_follower import Follower, LinePrinter, Source, Wanted
from .parameters import duration, pattern

#: The most logs that are read at a time.
AT_ONCE = 64


@click.command()
@click.argument("job", type=JOB)
@cluster_options
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, also with new pods.")
@click.option("--grep", type=pattern, help="Only lines in which this regular expression is found.")
@click.option("--since", type=duration, help="Only lines of this time, such as 10m.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last lines of each replica.")
@replica_options
@click.option("-p", "--previous", is_flag=True, help="The run of each container before its last restart.")
@click.option("--timestamps", is_flag=True, help="The time of each line before it.")
def logs(job: str, *, options: ClusterOptions, **wanted: object) -> None:
    """Print the output of all replicas of a job together, each line with its replica.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last.
    """
    choice = Wanted(**wanted)  # type: ignore[arg-type] # click gives the options their types
    if choice.follow and choice.previous:
        raise click.UsageError("--previous is of the past: it cannot be followed")
    run(options, lambda cluster: _logs(cluster, job, choice))


async def _logs(cluster: Cluster, name: str, wanted: Wanted) -> int:
    document, kind = await cluster.reader.find(cluster.namespace, name)
    target, printer = Target(document, kind, wanted.container), LinePrinter(wanted)
    if wanted.follow:
        await Follower(cluster, target, wanted, printer).run()
        return 0
    present = await cluster.reader.pods(document)
    pods = pods_of_replicas(present, document, wanted.replicas)
    if not pods:
        click.echo(_without_pods(document, present, wanted.replicas), err=True)
        return 1
    printer.widen(wanted.name(pod, document) for pod in pods)
    failed = 0
    for start in range(0, len(pods), AT_ONCE):
        sources = [Source(cluster, pod, target, wanted) for pod in pods[start : start + AT_ONCE]]
        async with aclosing(merged([source.lines() for source in sources])) as lines:
            async for line in lines:
                printer.show(line)
        failed += sum(source.report() for source in sources)
    return 1 if failed == len(pods) else 0


def _without_pods(document: Document, present: Sequence[Pod], replicas: Sequence[str]) -> str:
    """Return why there is nothing to print."""
    if not present:
        why = f"trainshed explain {with_namespace(document)} says why"
        return f"The job has no pods: {why}. The logs of earlier pods went with them."
    names = listed([replica_of(pod, document) for pod in pods_of_replicas(present, document, ())])
    return f"There is no pod of {listed(replicas)}; there are pods of {names}."


async def merged(sources: list[AsyncGenerator[LogLine, None]]) -> AsyncGenerator[LogLine, None]:
    """Yield the lines of all sources by time; each source has its lines in order."""
    async with AsyncExitStack() as stack:
        for source in sources:
            await stack.enter_async_context(aclosing(source))
        # All at once: a node that does not answer costs its time-out, and there may be many.
        firsts = await asyncio.gather(*map(_next, sources))
        heads = [(line, number) for number, line in enumerate(firsts) if line]
        heapify(heads)
        while heads:
            line, number = heappop(heads)
            yield line
            if following := await _next(sources[number]):
                heappush(heads, (following, number))


async def _next(source: AsyncGenerator[LogLine, None]) -> LogLine | None:
    return await anext(source, None)
