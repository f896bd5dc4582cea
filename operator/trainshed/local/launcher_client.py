"""Starts the launcher and talks to it: containers that are processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from trainshed.plan.quantities import parse_quantity

from .limits import Processors, processors
from .runtime import KILLED, StartFailed

#: Starts the launcher without what Python would import for the user's site.
PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r});"
    " from trainshed.local.launcher import main; main()"
)
#: Seconds for which the launcher is awaited at the end, and at the start.
END, START = 5.0, 10.0
#: Bytes that are read at once.
CHUNK = 1 << 16


class LaunchedContainer:
    """Implements `trainshed.local.runtime.Container`; `message` is the request that has started it."""

    def __init__(
        self, client: LauncherClient, known: str, message: Mapping[str, Any], output: asyncio.StreamReader
    ) -> None:
        self._client = client
        self._known = known
        self._message = message
        self._entered: list[LaunchedContainer] = []
        self.output = output
        self.reason = ""
        self.ended_at = None
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return await asyncio.shield(self.ended)

    def signal(self, number: int) -> None:
        """Send a signal; nothing if the container has ended."""
        if not self.ended.done():
            self._client.send({"op": "signal", "id": self._known, "number": int(number)})

    async def exec(self, command: Sequence[str], streams: tuple[int, int, int]) -> LaunchedContainer:
        """Run another program with the variables, the mounts and the network of the container."""
        process = await self._client.exec({**self._message, "argv": [*command]}, streams)
        self._entered.append(process)
        if self.ended.done():
            self.end_entered()
        return process

    def end(self, code: int, reason: str = "") -> None:
        """Note the end of the container."""
        self.reason = reason
        self.ended.set_result(code)
        self.end_entered()

    def end_entered(self) -> None:
        """Kill the programs that were run in the container."""
        for process in self._entered:
            process.signal(signal.SIGKILL)


class LauncherClient:
    """The launcher of a run; `problem` is why it has ended too early, empty while it works.

    `prefix` is a command that runs another one, such as unshare.
    """

    def __init__(self, mode: str, prefix: Sequence[str] = ()) -> None:
        self._command = [*prefix, sys.executable, "-I", "-S", "-c", PROGRAM, mode]
        self._socket, self._far = socket.socketpair()
        self._process: asyncio.subprocess.Process | None = None
        self._answers: dict[str, asyncio.Future[None]] = {}
        self._containers: dict[str, LaunchedContainer] = {}
        self._numbers = count()
        self._processors = Processors(processors())
        self._buffer = b""
        self.problem = ""

    async def open(self) -> None:
        """Start the launcher; raises `StartFailed` if that is not possible."""
        answer = self._expect("launcher")
        descriptor = self._far.fileno()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                str(descriptor),
                pass_fds=(descriptor,),
                start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise StartFailed(f"cannot run {self._command[0]}: {error.strerror}") from error
        self._far.close()
        self._socket.setblocking(False)  # noqa: FBT003 - it has no name
        asyncio.get_running_loop().add_reader(self._socket, self._receive)
        try:
            await asyncio.wait_for(answer, START)
        except (StartFailed, TimeoutError) as error:
            errors = await self._process.stderr.read() if self._process.stderr else b""
            raise StartFailed(errors.decode(errors="replace").strip() or str(error)) from None
        self._socket.settimeout(None)  # requests are short; answers are read when there are some

    async def request(self, message: Mapping[str, Any]) -> None:
        """Send a request and wait for its answer; raises `StartFailed`."""
        self._check()
        answer = self._expect(message["id"])
        self.send(message)
        await answer

    async def start(self, message: Mapping[str, Any], limits: Mapping[str, str]) -> LaunchedContainer:
        """Start a container with limits of resources; raises `StartFailed`."""
        numbers = self._processors.take(float(parse_quantity(limits.get("cpu")) or 0))
        limited = {"memory": int(parse_quantity(limits.get("memory")) or 0), "processors": numbers}
        reader, writer = os.pipe()
        output = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(output)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reader, "rb", 0))
        try:
            container = await self._start({**message, **limited}, (writer,), output)
        except StartFailed:
            self._processors.release(numbers)
            raise
        finally:
            os.close(writer)
        container.ended.add_done_callback(lambda _: self._processors.release(numbers))
        return container

    async def exec(self, message: Mapping[str, Any], streams: Sequence[int]) -> LaunchedContainer:
        """Start a program with these standard streams; raises `StartFailed`."""
        output = asyncio.StreamReader()
        output.feed_eof()
        return await self._start(message, streams, output)

    async def _start(
        self, message: Mapping[str, Any], streams: Sequence[int], output: asyncio.StreamReader
    ) -> LaunchedContainer:
        self._check()
        known = str(next(self._numbers))
        container = self._containers[known] = LaunchedContainer(self, known, message, output)
        answer = self._expect(known)
        self.send({"op": "start", "id": known, **message, "streams": len(streams)}, streams)
        try:
            await answer
        except StartFailed:
            del self._containers[known]
            raise
        return container

    def send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message, and descriptors with it."""
        content = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError):  # it has ended, which the reader notices
            sent = socket.send_fds(self._socket, [content], [*descriptors])
            self._socket.sendall(content[sent:])

    async def close(self) -> None:
        """End the launcher, and with it all containers."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        if self._process is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def _check(self) -> None:
        if self.problem:
            raise StartFailed(self.problem)

    def _expect(self, known: str) -> asyncio.Future[None]:
        answer = self._answers[known] = asyncio.get_running_loop().create_future()
        return answer

    def _receive(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._on_message(json.loads(line))

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if "exit" in message:
            container = self._containers.pop(message["exit"], None)
            if container:
                container.end(message["code"], message["reason"])
            return
        answer = self._answers.pop(message["id"], None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(StartFailed(message["error"]))
        else:
            answer.set_result(None)

    def _lost(self) -> None:
        """End everything: without the launcher no container is left."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self.problem = "the program that starts containers has ended unexpectedly, and with it all replicas"
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(StartFailed(self.problem))
        for container in [*self._containers.values()]:
            container.end(KILLED)
        self._answers.clear()
        self._containers.clear()
