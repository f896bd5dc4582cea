"""Starts the containers of a run; a program of its own, so that they end with the run however that ends.

The arguments are `processes` or `namespaces` and the number of a descriptor, a socket. The launcher reads one JSON
object per line, and writes one:

    {"op": "sandbox", "id": …, "address": …, "prefix": …, "hostname": …}   -> {"id": …} or {"id": …, "error": …}
    {"op": "start", "id": …, "sandbox": …, "argv": …, "env": …, "cwd": …, "mounts": …, "streams": …}, with so many
    descriptors: one for the output, or three for all standard streams      -> {"id": …} or {"id": …, "error": …}
    {"op": "signal", "id": …, "number": …}
    {"op": "remove", "id": …}
    {"exit": id of a container, "code": its exit code}

When the socket is closed, which also happens when the run is killed, the launcher kills all containers and ends. It
imports nothing but the standard library, and forks from a single thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from .isolation import Isolation, Message, Streams, exit_code
from .namespace_isolation import NamespaceIsolation


class Launcher:
    """Keeps the containers by the id that the run has given them; a container is known by its first process."""

    def __init__(self, control: socket.socket, isolation: Isolation) -> None:
        self._control = control
        self._isolation = isolation
        self._pids: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._descriptors: list[int] = []
        self._buffer = b""

    def run(self) -> None:
        """Serve until the socket is closed, then kill everything."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            while True:
                ready, _, _ = select.select([self._control.fileno(), reader], [], [])
                if reader in ready:
                    os.read(reader, 4096)
                    self._reap()
                if self._control.fileno() in ready and not self._receive():
                    break
        self.kill_all()

    def kill_all(self) -> None:
        """Kill all containers, and what they have started."""
        for pid in [*self._ids]:
            self._isolation.kill(pid)
        self._isolation.kill_rest()

    def _receive(self) -> bool:
        """Carry out the requests that have arrived; return False at the end of the socket."""
        data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 20, 64)
        self._descriptors += descriptors
        if not data:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return True

    def _handle(self, message: Message) -> None:
        match message["op"]:
            case "sandbox":
                self._answer(message, lambda: self._isolation.add(message))
            case "start":
                streams = [self._descriptors.pop(0) for _ in range(message["streams"])]
                self._answer(message, lambda: self._start(message, streams))
                for descriptor in streams:
                    os.close(descriptor)
            case "signal":
                self._signal(message["id"], message["number"])
            case "remove":
                self._isolation.remove(message["id"])

    def _answer(self, message: Message, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._send({"id": message["id"], "error": error.strerror or str(error)})
        else:
            self._send({"id": message["id"]})
        self._reap()

    def _start(self, message: Message, streams: Streams) -> None:
        pid = self._isolation.start(message, streams)
        self._pids[message["id"]], self._ids[pid] = pid, message["id"]

    def _signal(self, known: str, number: int) -> None:
        pid = self._pids.get(known)
        if pid is None:
            return
        if number == signal.SIGKILL:
            self._isolation.kill(pid)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._isolation.target(pid), number)

    def _reap(self) -> None:
        """Report the containers that have ended; other processes that were inherited are only reaped."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._ids:
                known = self._ids.pop(pid)
                del self._pids[known]
                self._isolation.ended(pid)
                self._send({"exit": known, "code": exit_code(status)})

    def _send(self, message: Message) -> None:
        self._control.sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve the socket that was inherited."""
    mode, descriptor = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no name
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    isolation = NamespaceIsolation() if mode == "namespaces" else Isolation()
    control = socket.socket(fileno=descriptor)
    control.sendall(b'{"id": "launcher"}\n')
    Launcher(control, isolation).run()
