"""`trainshed logs`: the output of all replicas together, across restarts and new pods."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush

import click

from trainshed.api import status_codec
from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.client import ApiError, Forbidden, Invalid, NotFound, Unavailable
from trainshed.client.job_reader import JobKind
from trainshed.plan import failures
from trainshed.views import log_lines
from trainshed.views.log_lines import COLOURS, LogLine

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_facts import framework_containers
from .parameters import duration, pattern

#: The most logs that are read at a time, and the seconds between two looks for new pods and containers.
AT_ONCE, LOOK = 64, 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are printed, and how."""

    follow: bool
    grep: re.Pattern[str] | None
    since: float | None
    tail: int | None
    replicas: tuple[str, ...]
    previous: bool
    timestamps: bool
    container: str = ""

    def query(self, container: str, after: str = "") -> dict[str, str]:
        """Return the options of the API for one container; `after` is the time of the last line that is known."""
        found = {"container": container, "timestamps": "true", "follow": str(self.follow).lower()}
        if self.previous:
            found["previous"] = "true"
        if after:
            return found | {"sinceTime": after}
        if self.since is not None:
            found["sinceSeconds"] = str(max(1, round(self.since)))
        return found | ({"tailLines": str(self.tail)} if self.tail is not None else {})


@click.command()
@click.argument("job")
@cluster_options
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, also with new pods.")
@click.option("--grep", type=pattern, help="Only lines in which this regular expression is found.")
@click.option("--since", type=duration, help="Only lines of this time, such as 10m.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last lines of each replica.")
@click.option(
    "-r", "--replica", "replicas", multiple=True, help="Only this replica, such as worker-0; may be repeated."
)
@click.option("-c", "--container", default="", help="The container (default: the one that trains).")
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
    target, printer = LoggedJob(document, kind, wanted.container), LinePrinter(wanted)
    if wanted.follow:
        await Follower(cluster, target, wanted, printer).run()
        return 0
    pods = _chosen(await cluster.reader.pods(document), document, wanted)
    if not pods:
        click.echo("There are no pods of these replicas: their logs went with them.", err=True)
        return 1
    printer.widen(_replica(pod, document) for pod in pods)
    failed = 0
    for start in range(0, len(pods), AT_ONCE):
        sources = [Source(cluster, pod, target, wanted) for pod in pods[start : start + AT_ONCE]]
        async for line in merged([source.lines() for source in sources]):
            printer.show(line)
        failed += sum(source.report() for source in sources)
    return 1 if failed == len(pods) else 0


def _replica(pod: Pod, job: Document) -> str:
    return pod.name.removeprefix(f"{job['metadata']['name']}-")


def _chosen(pods: Iterable[Pod], job: Document, wanted: Wanted) -> list[Pod]:
    """Return the pods of the replicas that are wanted, by role and index."""
    found = sorted(pods, key=lambda pod: (pod.role, pod.index, pod.name))
    return [pod for pod in found if not wanted.replicas or {pod.name, _replica(pod, job)} & set(wanted.replicas)]


class LoggedJob:
    """A job, and which container of its pods is meant: the one that the user names, else the one that trains."""

    def __init__(self, document: Document, kind: JobKind, named: str) -> None:
        self.document, self.kind, self._named = document, kind, named
        self._by_role = {} if named else framework_containers(document, kind)

    def container(self, pod: Pod) -> str:
        """Return the name of the container; the first one, as with kubectl, if it is not known which one trains."""
        own = failures.own_container(pod, self._by_role.get(pod.role, ""))
        return self._named or next((item.name for item in (own, *pod.containers) if item and not item.init), "")


class LinePrinter:
    """Prints lines with the names of their replicas before them, in colours on a terminal."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted, self._width, self._colours = wanted, 0, dict[str, str]()

    def widen(self, replicas: Iterable[str]) -> None:
        """Make room for these names."""
        self._width = max((self._width, *map(len, replicas)))

    def show(self, line: LogLine) -> None:
        """Print a line, if it is wanted."""
        if self._wanted.grep and not self._wanted.grep.search(line.text):
            return
        colour = self._colours.setdefault(line.replica, COLOURS[len(self._colours) % len(COLOURS)])
        time = f"{line.time} " if self._wanted.timestamps else ""
        click.echo(f"{click.style(f'{line.replica:<{self._width}} |', fg=colour)} {time}{line.text}")


class Source:
    """The log of one container of one pod; `error` is why it ended early."""

    def __init__(self, cluster: Cluster, pod: Pod, target: LoggedJob, wanted: Wanted) -> None:
        self._cluster, self._pod, self._target, self._wanted = cluster, pod, target, wanted
        self.error: ApiError | None = None
        self.last = ""

    async def lines(self) -> AsyncIterator[LogLine]:
        """Yield the lines that are new since the last call."""
        self.error, after = None, self.last
        document = self._target.document
        namespace, replica = document["metadata"]["namespace"], _replica(self._pod, document)
        query = self._wanted.query(self._target.container(self._pod), after)
        try:
            async for content in self._cluster.reader.log(namespace, self._pod.name, query):
                line = log_lines.parse(replica, content, colour=sys.stdout.isatty())
                if line.time > after:  # `sinceTime` has whole seconds only
                    self.last = line.time
                    yield line
        except (Forbidden, Invalid, NotFound, Unavailable) as error:
            self.error = error

    def report(self) -> bool:
        """Say why the log could not be read; return whether there is a reason."""
        if self.error:
            click.echo(f"{_replica(self._pod, self._target.document)}: {self.error}", err=True)
        return self.error is not None


async def merged(sources: list[AsyncIterator[LogLine]]) -> AsyncIterator[LogLine]:
    """Yield the lines of all sources by time; each source has its lines in order."""
    heads: list[tuple[LogLine, int]] = []
    for number, source in enumerate(sources):
        with suppress(StopAsyncIteration):
            heappush(heads, (await anext(source), number))
    while heads:
        line, number = heappop(heads)
        yield line
        with suppress(StopAsyncIteration):
            heappush(heads, (await anext(sources[number]), number))


class Follower:
    """Follows the logs of a job until it has ended: a new pod and a container that starts again are read as well."""

    def __init__(self, cluster: Cluster, target: LoggedJob, wanted: Wanted, printer: LinePrinter) -> None:
        self._cluster, self._target, self._wanted, self._printer = cluster, target, wanted, printer
        self._job = target.document
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Print lines until the job has ended and all that its pods have written is printed, or until Ctrl-C."""
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._read()
                pods = _chosen(await self._cluster.reader.pods(self._job), self._job, self._wanted) if job else []
                self._printer.widen(_replica(pod, self._job) for pod in pods)
                for pod in pods:
                    if pod.uid not in self._tasks and has_started(pod, self._target.container(pod)):
                        self._tasks[pod.uid] = group.create_task(self._follow(pod))
                if job is None or status_codec.parse_status(job).over:
                    break
                await asyncio.sleep(LOOK)
            if job is None:
                for task in self._tasks.values():
                    task.cancel()

    async def _read(self) -> Document | None:
        """Return the job as it is now, or None if it is gone."""
        metadata = self._job["metadata"]
        found = await self._cluster.reader.job(self._target.kind, metadata["namespace"], metadata["name"])
        return found if found and found["metadata"]["uid"] == metadata["uid"] else None

    async def _follow(self, pod: Pod) -> None:
        """Print the log of a pod until the pod has ended, also after an interruption and a restart in place."""
        source = Source(self._cluster, pod, self._target, self._wanted)
        while True:
            async for line in source.lines():
                self._printer.show(line)
            pods = await self._cluster.reader.pods(self._job)
            now = next((found for found in pods if found.uid == pod.uid), None)
            if now is None or now.over or isinstance(source.error, Forbidden):
                source.report()
                return
            await asyncio.sleep(LOOK)


def has_started(pod: Pod, name: str) -> bool:
    """Return whether there may be a log of this container."""
    found = next((container for container in pod.containers if container.name == name), None)
    return found is not None and (found.started is not None or found.exit_code is not None or found.before is not None)
