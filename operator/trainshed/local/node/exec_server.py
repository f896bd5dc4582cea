"""Runs commands in running replicas for `remote_shell`: what the API server and sshd are for in a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from trainshed.local import tasks
from trainshed.local.runtimes.protocol import RuntimeContainer, StartFailed

#: The name of the socket, and the bytes of the longest request.
SOCKET, LONGEST = "exec.sock", 1 << 20
STREAMS = 3
#: Of macOS, where Python has no names for them: the level of UNIX sockets, the credentials of a peer, and their bytes.
SOL_LOCAL, LOCAL_PEERCRED, XUCRED = 0, 1, 76


class ExecServer:
    """Serves a socket in `folder`; `find` returns the running container of a pod, None if it does not run.

    Its arguments are the name of the pod and that of the container, which may be empty. A request must have the
    `secret` of the run, which only launchers of MPIJobs know. If replicas are processes of this machine, its process
    must also be this user's. In containers it may have any uid, by the image's user and the engine's mapping; there the
    folder of the run keeps other users from the socket, and the secret keeps out users that share a uid with a
    container.
    """

    def __init__(
        self, folder: Path, find: Callable[[str, str], RuntimeContainer | None], secret: str, *, in_containers: bool
    ) -> None:
        self._folder = folder
        self._find = find
        self._secret = secret
        self._in_containers = in_containers
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start to serve."""
        with contextlib.chdir(self._folder):  # the path may be too long for an address
            self._socket.bind(SOCKET)
        (self._folder / SOCKET).chmod(0o666 if self._in_containers else 0o600)
        self._socket.listen(128)
        self._socket.setblocking(False)  # noqa: FBT003 - it has no name
        self._keep(self._accept())

    async def close(self) -> None:
        """Stop to serve; commands that run are killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = tasks.start(work, "commands in replicas")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
            self._keep(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        streams: list[int] = []
        with connection:
            try:
                request = await _receive(connection, streams)
                self._check(connection, request)
                answer = await self._run(request, streams, connection)
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": str(error)}
            finally:
                for descriptor in streams:
                    os.close(descriptor)
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().sock_sendall(connection, json.dumps(answer).encode() + b"\n")

    def _check(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Raise PermissionError if a process may not run commands."""
        if not self._in_containers and peer(connection) != os.geteuid():
            raise PermissionError("the run is another user's")
        if not hmac.compare_digest(str(request["secret"]).encode(), self._secret.encode()):
            raise PermissionError("the request does not have the secret of the run")

    async def _run(self, request: dict[str, Any], streams: list[int], connection: socket.socket) -> dict[str, Any]:
        """Run a command until it ends, or until its caller has gone; return the answer."""
        container = self._find(request["pod"], request["container"])
        if container is None:
            return {"error": "the pod does not run"}
        try:
            process = await container.exec(request["command"], (streams[0], streams[1], streams[2]))
        except StartFailed as error:
            return {"error": str(error)}
        ended = asyncio.create_task(process.wait())
        gone = asyncio.create_task(asyncio.get_running_loop().sock_recv(connection, 1))
        try:
            await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not ended.done():
                process.signal(signal.SIGKILL)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        return {"code": await ended}


def peer(connection: socket.socket) -> int:
    """Return the uid of the process at the other end of a UNIX socket."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    else:
        credentials = connection.getsockopt(SOL_LOCAL, LOCAL_PEERCRED, XUCRED)
    return int(struct.unpack_from("=II", credentials)[1])


async def _receive(connection: socket.socket, streams: list[int]) -> dict[str, Any]:
    """Return the request of a connection, and append the descriptors that come with it; raises ValueError."""
    connection.setblocking(False)  # noqa: FBT003 - it has no name
    loop, content = asyncio.get_running_loop(), b""
    while not content.endswith(b"\n"):
        readable = asyncio.Event()
        loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection)
        data, descriptors, _, _ = socket.recv_fds(connection, LONGEST, STREAMS)
        streams += descriptors
        content += data
        if not data or len(content) > LONGEST:
            raise ValueError("incomplete request")
    if len(streams) != STREAMS:
        raise ValueError("the request has no streams")
    found: dict[str, Any] = {}
    texts: tuple[object, ...] = ()
    with contextlib.suppress(TypeError, KeyError, RecursionError):
        found = json.loads(content)
        texts = (found["pod"], found["container"], found["secret"], *found["command"])
    if not texts[3:] or not all(isinstance(text, str) for text in texts):
        raise ValueError("the request is no command for a replica")
    return found
