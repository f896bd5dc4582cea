"""The output of a container: passed on as it comes, and its last lines kept for the message of a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from trainshed.api.job import Document
from trainshed.local import tasks
from trainshed.local.runtimes.protocol import LogSink, RuntimeContainer

#: The bytes and lines of the log that become the termination message of a failure.
LOG_BYTES, LOG_LINES = 2048, 80
#: Bytes of output that are read at once.
CHUNK = 65536
#: Seconds for which more output of a container that has ended is awaited, all in all: all of its own is on its way.
DRAIN = 2.0
#: How often it is read then, for more than pipes and buffers hold: what comes later is of other processes.
READS = 64


class ContainerOutput:
    """Reads the output of a container in a task of its own, and passes it on."""

    def __init__(self, container: RuntimeContainer, logs: LogSink, pod: Document, name: str) -> None:
        self._container = container
        self._logs = logs
        self._pod = pod
        self._name = name
        self._lines: deque[bytes] = deque(maxlen=LOG_LINES)
        self._reads = 0
        logs.begin(pod, name)
        self._task = tasks.start(self._read(), f"output of pod {pod['metadata']['name']}")

    @property
    def end(self) -> bytes:
        """The last lines."""
        return b"\n".join(self._lines)[-LOG_BYTES:]

    async def drain(self) -> None:
        """Read what a container that has ended has written, however long its reader takes, but nothing of others.

        A process that the container has left may keep its output open.
        """
        most = self._reads + READS
        await tasks.until_silent(self._task, lambda: min(self._reads, most), DRAIN, DRAIN)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        rest = b""
        with contextlib.suppress(asyncio.CancelledError):
            while chunk := await self._container.output.read(CHUNK):
                self._reads += 1
                self._logs.write(self._pod, self._name, chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                self._lines.extend(line[-LOG_BYTES:] for line in lines)
                rest = rest[-LOG_BYTES:]
        if rest:
            self._lines.append(rest)
        self._logs.end(self._pod, self._name)
