"""Reads and prints the logs of a job's replicas, and follows them until the job has ended."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

import click

from trainshed.api import status_codec
from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.client import ApiError, Forbidden, TooManyRequests, Unavailable
from trainshed.client.log_stream import LogStream
from trainshed.client.outage import Outage
from trainshed.views import log_lines
from trainshed.views.log_lines import COLOURS, LogLine
from trainshed.views.rows import listed

from .connection import Cluster, warn
from .job_pods import Target, pods_of_replicas, replica_of

#: The seconds between two reads of the job and its pods.
POLL_SECONDS = 1.0
#: The seconds after the end of a job for which pods that run on are followed, and those that are being deleted: under
#: cleanPodPolicy None nothing ends parameter servers, and a grace period may be longer than anyone waits.
RUNNING_ON, STOPPING = 5.0, 60.0
#: How often the log of a pod that has ended is read again after an interruption.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are printed, and how."""

    follow: bool
    grep: re.Pattern[str] | None = None
    since: float | None = None
    tail: int | None = None
    replicas: tuple[str, ...] = ()
    previous: bool = False
    timestamps: bool = False
    container: str = ""
    several: bool = False

    def name(self, pod: Pod, job: Document) -> str:
        """Return what stands before the lines of a pod: its replica, or its name if there are several jobs."""
        return pod.name if self.several else replica_of(pod, job)

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

    def __init__(self, cluster: Cluster, pod: Pod, target: Target, wanted: Wanted) -> None:
        self._name, container = wanted.name(pod, target.document), target.container(pod)
        namespace = target.document["metadata"]["namespace"]
        self._stream = LogStream(cluster.reader, namespace, pod.name, lambda after: wanted.query(container, after))

    @property
    def error(self) -> ApiError | None:
        """Why the log ended early."""
        return self._stream.error

    async def lines(self) -> AsyncGenerator[LogLine, None]:
        """Yield the lines that are new since the last call."""
        async with aclosing(self._stream.lines()) as lines:
            async for time, text in lines:
                yield log_lines.parse(self._name, time, text, colour=sys.stdout.isatty())

    def report(self) -> bool:
        """Say why the log could not be read; return whether there is a reason."""
        if self.error:
            click.echo(f"{self._name}: {self.error}", err=True)
        return self.error is not None


class Follower:
    """Follows the logs of a job until it has ended: a new pod and a container that starts again are read as well."""

    def __init__(self, cluster: Cluster, target: Target, wanted: Wanted, printer: LinePrinter) -> None:
        self._cluster, self._target, self._wanted, self._printer = cluster, target, wanted, printer
        self._job = target.document
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pods: dict[str, Pod] = {}
        self._news = asyncio.Event()
        self._over: float | None = None
        self._outage, self._heard = Outage(warn), 0.0

    async def run(self, on_job: Callable[[Document], None] = lambda _job: None) -> Document | None:
        """Print lines until the job has ended and all that its pods have written is printed, or until Ctrl-C.

        Pods that run on after the end of the job are followed a little longer. `on_job` is called with the job about
        every second. Returns the job as it was last, or None if it is gone.
        """
        async with asyncio.TaskGroup() as group:
            while job := await self._read():
                pods = pods_of_replicas(self._pods.values(), self._job, self._wanted.replicas)
                self._printer.widen(self._wanted.name(pod, self._job) for pod in pods)
                for pod in pods:
                    if pod.uid not in self._tasks and has_started(pod, self._target.container(pod)):
                        self._tasks[pod.uid] = group.create_task(self._follow(pod))
                on_job(job)
                if not status_codec.parse_status(job).over:
                    await asyncio.sleep(POLL_SECONDS)
                elif left := self._left():
                    await asyncio.wait(left, timeout=POLL_SECONDS)
                else:
                    break
            for task in self._tasks.values():
                task.cancel()
        return job

    def _left(self) -> list[asyncio.Task[None]]:
        """Return the tasks that are waited for though the job is over, after giving up those of pods that run on."""
        now = asyncio.get_running_loop().time()
        self._over = now if self._over is None else self._over
        left = {uid: task for uid, task in self._tasks.items() if not task.done()}
        running = {uid: pod for uid, pod in self._pods.items() if uid in left and not pod.deleting}
        given_up = [uid for uid in left if now - self._over >= (RUNNING_ON if uid in running else STOPPING)]
        names = [self._wanted.name(self._pods[uid], self._job) for uid in given_up if uid in self._pods]
        if names:
            warn(f"The job has ended, and these are not followed any more, as they run on: {listed(names)}")
        for uid in given_up:
            left.pop(uid).cancel()
        return list(left.values())

    async def _read(self) -> Document | None:
        """Return the job as it is now, None if it is gone, and read its pods; an interruption does not matter."""
        metadata = self._job["metadata"]
        while True:
            try:
                found = await self._cluster.reader.job(self._target.kind, metadata["namespace"], metadata["name"])
                if found is None or found["metadata"]["uid"] != metadata["uid"]:
                    return None
                pods = await self._cluster.reader.pods(self._job)
            except (TooManyRequests, Unavailable) as error:
                self._outage.note(error, self._heard)
            else:
                self._heard = asyncio.get_running_loop().time()
                self._pods = {pod.uid: pod for pod in pods}
                self._news.set()
                self._news = asyncio.Event()
                return found
            await asyncio.sleep(POLL_SECONDS)

    async def _follow(self, pod: Pod) -> None:
        """Print the log of a pod until it has ended, also after an interruption and a restart in place.

        Each task waits for what the job's own loop reads: a read of all pods for each of them would be too much.
        """
        source, tries = Source(self._cluster, pod, self._target, self._wanted), TRIES
        while True:
            async with aclosing(source.lines()) as lines:
                async for line in lines:
                    self._printer.show(line)
            if not self._has_ended(pod):
                await self._news.wait()
            if self._has_ended(pod) or isinstance(source.error, Forbidden):
                tries -= 1
                if not tries or not isinstance(source.error, (TooManyRequests, Unavailable)):
                    source.report()
                    return
                await asyncio.sleep(POLL_SECONDS)

    def _has_ended(self, pod: Pod) -> bool:
        """Return whether nothing more will be written: the pod has ended or is gone, or the job and the container."""
        now = self._pods.get(pod.uid)
        if now is None or now.over:
            return True
        name = self._target.container(pod)
        ended = any(container.name == name and container.exit_code is not None for container in now.containers)
        return ended and self._over is not None


def has_started(pod: Pod, name: str) -> bool:
    """Return whether there may be a log of this container."""
    found = next((container for container in pod.containers if container.name == name), None)
    return found is not None and (found.started is not None or found.exit_code is not None or found.before is not None)
