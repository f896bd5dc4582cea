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

from trainshed.api.quantities import parse_quantity
from trainshed.local import tasks
from trainshed.local.launcher.isolation import private
from trainshed.local.launcher.limits import Processors, processors, raise_files
from trainshed.local.launcher.outbox import Outbox
from trainshed.local.launcher.process_tree import by_parent, descendants, pids_of, processes

from .protocol import KILLED, StartFailed, memory_limit

#: Starts the launcher without what Python would import for the user's site.
PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r});"
    " from trainshed.local.launcher.launcher import main; main()"
)
#: Prints the stacks of processes. The bytes of it that are read.
STACK_DUMP, MOST_STACKS = PROGRAM.replace("local.launcher.launcher", "stack_dump"), 8 << 20
#: Seconds for which the launcher is awaited at the end, and at the start. A machine with more work than processors
#: takes long, and a launcher that is given up too early looks as if the machine did not permit it.
END, START = 5.0, 120.0
#: Bytes that are read at once.
CHUNK = 1 << 16
#: Containers that are being started at the same time: each has a pipe, and descriptors on their way.
AT_ONCE = 64
#: Seconds between two questions whether the launcher still works, and after which silence means that it does not.
PING, SILENCE = 5.0, 60.0
ENDED = "the program that starts containers has ended unexpectedly, and with it all replicas"
BUSY = "the machine may have too little processor time or memory left: run the jobs again when less runs on it"
LATE = f"the program that starts containers has not started within {START:.0f} s; {BUSY}"
STUCK = "the program that starts containers did not end, and was killed"
NO_PROC = "stacks are read from /proc, which this system does not have; --runtime docker can show them"
GONE = "it has ended"
SILENT = (
    f"the program that starts containers has not answered for {SILENCE:.0f} s; it is ended, and with it all replicas;"
    f" {BUSY}"
)


class LaunchedContainer:
    """Implements `protocol.RuntimeContainer`; `message` is the request that has started it."""

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
        self.pid = 0
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

    async def stacks(self) -> str:
        """Return what `trainshed.stack_dump` prints about the processes; raises `StartFailed`."""
        return await self._client.stacks(self.pid)

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
        self._namespaces = mode == "namespaces"
        self._command = [*prefix, sys.executable, "-I", "-S", "-c", PROGRAM, mode]
        self._socket, self._far = socket.socketpair()
        self._process: asyncio.subprocess.Process | None = None
        self._answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._containers: dict[str, LaunchedContainer] = {}
        self._numbers = count()
        self._processors = Processors(processors())
        self._buffer = b""
        self._descriptors: list[int] = []
        self._outbox = Outbox(self._socket)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._heard = 0.0
        self._watch: asyncio.TimerHandle | None = None
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
        raise_files()
        self._socket.setblocking(False)  # noqa: FBT003 - it has no name
        asyncio.get_running_loop().add_reader(self._socket, self._receive)
        try:
            await tasks.within(answer, START)
        except (StartFailed, TimeoutError) as error:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()  # it may still run, and then its output does not end
            errors = await self._process.stderr.read() if self._process.stderr else b""
            raise StartFailed(errors.decode(errors="replace").strip() or str(error) or LATE) from None
        self._ping()

    async def request(self, message: Mapping[str, Any]) -> None:
        """Send a request and wait for its answer; raises `StartFailed`."""
        self._check()
        answer = self._expect(message["id"])
        self.send(message)
        await answer

    async def listen(self, address: str) -> socket.socket:
        """Return a socket that listens at an address of the launcher's network; raises `StartFailed`."""
        await self.request({"op": "listen", "id": "listen", "address": address})
        if not self._descriptors:
            raise StartFailed("too many files are open")
        return socket.socket(fileno=self._descriptors.pop())

    async def start(self, message: Mapping[str, Any], limits: Mapping[str, str]) -> LaunchedContainer:
        """Start a container with limits of resources; raises `StartFailed`."""
        numbers = self._processors.take(float(parse_quantity(limits.get("cpu")) or 0))
        limited = {"memory": memory_limit(limits), "processors": numbers}
        try:
            async with self._room:
                container = await self._start_with_pipe({**message, **limited})
        except StartFailed:
            self._processors.release(numbers)
            raise
        container.ended.add_done_callback(lambda _: self._processors.release(numbers))
        return container

    async def exec(self, message: Mapping[str, Any], streams: Sequence[int]) -> LaunchedContainer:
        """Start a program with these standard streams; raises `StartFailed`."""
        output = asyncio.StreamReader()
        output.feed_eof()
        async with self._room:
            return await self._start(message, streams, output)

    async def _start_with_pipe(self, message: Mapping[str, Any]) -> LaunchedContainer:
        try:
            reader, writer = os.pipe()
        except OSError as error:
            raise StartFailed(f"cannot make a pipe for the output: {error.strerror}") from error
        output = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(output)
        try:
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reader, "rb", 0))
            return await self._start(message, (writer,), output)
        finally:
            os.close(writer)

    async def _start(
        self, message: Mapping[str, Any], streams: Sequence[int], output: asyncio.StreamReader
    ) -> LaunchedContainer:
        self._check()
        known = str(next(self._numbers))
        container = self._containers[known] = LaunchedContainer(self, known, message, output)
        answer = self._expect(known)
        self.send({"op": "start", "id": known, **message, "streams": len(streams)}, streams)
        try:
            container.pid = (await answer)["pid"]
        except StartFailed:
            self._containers.pop(known, None)  # it is gone if the launcher is
            raise
        return container

    async def stacks(self, pid: int) -> str:
        """Return what `trainshed.stack_dump` prints about the processes of the container with this first process.

        This process reads them, not the launcher: as owner of the launcher's namespaces it may, whatever user it is.
        Raises `StartFailed`.
        """
        if sys.platform != "linux":
            raise StartFailed(NO_PROC)
        if not (pids := self._inside(pid) if self._namespaces else [pid]):
            raise StartFailed(GONE)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", STACK_DUMP, *map(str, pids)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        output = b""
        try:
            while process.stdout and len(output) < MOST_STACKS and (chunk := await process.stdout.read(CHUNK)):
                output += chunk
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        return output.decode(errors="replace")

    def _inside(self, init: int) -> list[int]:
        """Return the children of an init process, which the launcher knows by this pid in its namespace."""
        tree = by_parent(processes())
        found = self._process.pid if self._process else 0
        own = next((pid for pid in descendants(found, tree) if pids_of(pid)[1:2] == [init]), 0)
        return tree.get(own, [])

    def send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message, and descriptors with it, as soon as the launcher reads; nothing if it has ended."""
        if not self.problem and self._socket.fileno() >= 0:
            self._outbox.add(json.dumps(message).encode() + b"\n", descriptors)
            self._flush()

    async def close(self) -> None:
        """End the launcher, and with it all containers, within some seconds whatever it does."""
        self._unwatch()
        self._socket.close()
        self._far.close()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)  # a stopped launcher would leave its containers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), END)
            if self._process.returncode is None:
                self.problem = self.problem or STUCK
                self._process.kill()
                await self._process.wait()
        self._lose(self.problem)

    def _flush(self) -> None:
        """Write what waits; the event loop calls this again when the socket takes more."""
        try:
            self._outbox.flush()
        except OSError:  # it has ended, which the reader notices
            self._outbox.clear()
        loop = asyncio.get_running_loop()
        if self._outbox:
            loop.add_writer(self._socket, self._flush)
        else:
            loop.remove_writer(self._socket)

    def _unwatch(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            asyncio.get_running_loop().remove_writer(self._socket)

    def _ping(self) -> None:
        """Note that the launcher is stuck if nothing has come from it for long."""
        loop = asyncio.get_running_loop()
        if "ping" not in self._answers:
            self._heard = loop.time()
            self._expect("ping")
            self.send({"op": "ping"})
        elif loop.time() - self._heard > SILENCE:
            self._lose(SILENT)
            return
        self._watch = loop.call_later(PING, self._ping)

    def _check(self) -> None:
        if self.problem or self._socket.fileno() < 0:
            raise StartFailed(self.problem or ENDED)

    def _expect(self, known: str) -> asyncio.Future[Mapping[str, Any]]:
        answer = self._answers[known] = asyncio.get_running_loop().create_future()
        return answer

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, CHUNK, 1)
            self._descriptors += private(descriptors)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(ENDED)
            return
        self._heard = asyncio.get_running_loop().time()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        understood = False
        try:
            for line in lines:
                self._on_message(json.loads(line))
            understood = True
        finally:
            if not understood:  # what waits for an answer ends; the handler of the loop reports the error
                self._lose(ENDED)

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
            answer.set_result(message)

    def _lose(self, problem: str) -> None:
        """End everything: without the launcher no container is left."""
        if self._watch:
            self._watch.cancel()
        self.problem = problem
        self._outbox.clear()
        self._unwatch()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(StartFailed(problem or ENDED))
                answer.exception()  # no task may wait for it any more
        for container in [*self._containers.values()]:
            container.end(KILLED)
        self._answers.clear()
        self._containers.clear()
