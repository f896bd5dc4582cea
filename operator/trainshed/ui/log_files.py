"""The logs of a run on this machine: files in its folder, one for each container, without the times of lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import BinaryIO

from trainshed.client.log_stream import Stamped

from .replica_logs import LogPod, LogQuery, OpenLog

#: Bytes that are read at a time, the most of a line, and the most that are read for the last lines of a file.
PIECE, MOST_LINE, MOST_TAIL = 1 << 16, 1 << 16, 4 << 20
#: Seconds between two looks whether a file has grown.
LOOK = 0.2


class FolderLogs:
    """Implements `ReplicaLogs`: the files `POD.log` of a folder, and `POD.CONTAINER.log` of containers beside."""

    outlive = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, pod: LogPod, query: LogQuery, after: str = "") -> OpenLog:
        """Return the log of a container; `after` is the place in its file, as `last` has it."""
        beside = self._folder / f"{pod.name}.{pod.container}.log"
        path = beside if beside.exists() else self._folder / f"{pod.name}.log"
        return FileLog(path, query, after)


class FileLog:
    """Implements `OpenLog`; `last` is the number of the file and the bytes before what was not read yet."""

    def __init__(self, path: Path, query: LogQuery, after: str) -> None:
        self._path, self._query, self.last = path, query, after
        self.problem = ""

    async def lines(self) -> AsyncGenerator[Stamped, None]:
        """Yield the lines that are new since the last call; no time is known of them."""
        self.problem = ""
        if self._query.previous:
            self.problem = "the file has the output of all runs of the container: look at it without the previous run"
            return
        try:
            with self._path.open("rb") as file:
                self._start(file)
                async for line in self._read(file):
                    yield "", line
        except OSError as error:
            self.problem = f"the file cannot be read: {error.strerror}"

    def _start(self, file: BinaryIO) -> None:
        """Go to the first byte that is wanted: after what is known, else the start of the last lines."""
        number, _, place = self.last.partition(":")
        end = file.seek(0, os.SEEK_END)
        if number == str(os.fstat(file.fileno()).st_ino) and int(place) <= end:
            file.seek(int(place))
        elif number:  # the file has begun again meanwhile
            file.seek(0)
        else:
            file.seek(max(0, end - MOST_TAIL))
            content = file.read(MOST_TAIL)
            lines = content.split(b"\n")
            kept = lines[-self._query.tail - 1 :] if self._query.tail else lines[-1:]
            file.seek(end - len(b"\n".join(kept)))
        self._keep(file)

    async def _read(self, file: BinaryIO) -> AsyncGenerator[bytes, None]:
        while True:
            content = file.read(PIECE)
            whole, newline, _ = content.rpartition(b"\n")
            if newline or len(content) >= MOST_LINE:
                taken = whole + newline or content
                file.seek(len(taken) - len(content), os.SEEK_CUR)
                self._keep(file)
                for line in taken.removesuffix(b"\n").split(b"\n"):
                    yield line
                await asyncio.sleep(0)
                continue
            file.seek(-len(content), os.SEEK_CUR)
            if not self._query.follow or self._has_begun_again(file):
                if content:  # the last line, which has no end yet
                    file.seek(len(content), os.SEEK_CUR)
                    self._keep(file)
                    yield content
                return
            await asyncio.sleep(LOOK)

    def _keep(self, file: BinaryIO) -> None:
        self.last = f"{os.fstat(file.fileno()).st_ino}:{file.tell()}"

    def _has_begun_again(self, file: BinaryIO) -> bool:
        """Return whether the file was set aside, as it was large, and a new one has begun."""
        try:
            return self._path.stat().st_ino != os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return False
