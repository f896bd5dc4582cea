"""Starts the containers of a run; a program of its own, so that they end with the run however that ends.

The arguments are `processes` or `namespaces` and the number of a descriptor, a socket. The launcher reads one JSON
object per line, and writes one:

    {"op": "sandbox", "id": …, "address": …, "prefix": …, "hostname": …}   -> {"id": …} or {"id": …, "error": …}
    {"op": "start", "id": …, "sandbox": …, "argv": …, "env": …, "cwd": …, "mounts": …, "streams": …, "memory": …,
     "processors": …}, with so many descriptors: one for the output, or three for all standard streams
                                                                  -> {"id": …, "pid": …} or {"id": …, "error": …}
    {"op": "signal", "id": …, "number": …}
    {"op": "remove", "id": …}
    {"op": "listen", "id": …, "address": …}      -> {"id": …}, with a descriptor, or {"id": …, "error": …}
    {"exit": id of a container, "code": its exit code, "reason": OOMKilled or empty}
    {"op": "ping"}                                                          -> {"id": "ping"}

Neither end waits until the other one reads: what a socket does not take is written later. When the socket is closed,
which also happens when the run is killed, or has a message that is none of these, the launcher kills all containers
and ends. It imports nothing but the standard library, and forks from a single thread. docs/architecture.md has it all.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from .isolation import Isolation, Message, Streams, exit_code, private
from .limits import exceeds, raise_files
from .namespace_isolation import NamespaceIsolation
from .outbox import Outbox
from .process_tree import ROUND, by_parent, descendants, processes

#: Sandboxes that are created at the same time.
AT_ONCE = 16
#: Bytes that are read at once: requests for some ten containers, so that those that have ended are reported meanwhile.
CHUNK = 1 << 16
#: Seconds between two readings of the memory of containers that have a limit.
WATCH = 0.5
#: Seconds for which the end of a container waits until what it has left has ended.
LEFT = 5.0


@dataclass(frozen=True, slots=True)
class _End:
    """A container that has ended, and the message that says so once nothing is left of it, or at a time."""

    number: int
    message: Message
    latest: float


class Launcher:
    """Keeps the containers by the id that the run has given them; a container is known by its first process.

    `files` is how many files a container may open.
    """

    def __init__(self, control: socket.socket, isolation: Isolation, files: int) -> None:
        self._files = files
        self._control = control
        self._control.setblocking(False)  # noqa: FBT003 - it has no name
        self._outbox = Outbox(control)
        self._isolation = isolation
        self._pids: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._descriptors: list[int] = []
        self._limits: dict[int, int] = {}
        self._over: set[int] = set()
        self._watched = 0.0
        self._ends: list[_End] = []
        self._next_check = math.inf
        self._buffer = b""

    def run(self) -> None:
        """Serve until the socket is closed, then kill everything; also before an error, such as one of a message."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            while self._serve(reader):
                pass
        except ConnectionError:
            pass  # as at the end of the socket
        finally:
            self.kill_all()

    def _serve(self, reader: int) -> bool:
        """Wait for requests and ends of processes, and handle them; return False at the end of the socket."""
        control = self._control.fileno()
        pause = min(WATCH if self._limits else math.inf, max(self._next_check - time.monotonic(), 0.0))
        unsent = [control] if self._outbox else []
        ready, _, _ = select.select([control, reader], unsent, [], None if pause == math.inf else pause)
        self._watch()
        if reader in ready:
            os.read(reader, 4096)
            self._reap()
        if time.monotonic() >= self._next_check:
            self._report()
        if control in ready and not self._receive():
            return False
        self._outbox.flush()
        return True

    def kill_all(self) -> None:
        """Kill all containers, and what they have started."""
        for pid in [*self._ids]:
            self._isolation.kill(pid)
        self._isolation.kill_rest()

    def _receive(self) -> bool:
        """Carry out the requests that have arrived; return False at the end of the socket."""
        data, descriptors, _, _ = socket.recv_fds(self._control, CHUNK, 64)
        self._descriptors += private(descriptors)
        if not data:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        messages = [json.loads(line) for line in lines]
        for sandboxes, group in groupby(messages, key=lambda message: message["op"] == "sandbox"):
            if sandboxes:
                self._add([*group])
            else:
                for message in group:
                    self._handle(message)
        return True

    def _add(self, messages: list[Message]) -> None:
        """Create sandboxes, several at a time."""
        while messages:
            some, messages = messages[:AT_ONCE], messages[AT_ONCE:]
            self._answer(some, lambda some=some: self._isolation.add(some))  # type: ignore[misc]

    def _handle(self, message: Message) -> None:
        match message["op"]:
            case "start":
                streams = [self._descriptors.pop(0) for _ in range(message["streams"])]
                self._answer([message], lambda: self._start(message, streams))
                for descriptor in streams:
                    os.close(descriptor)
            case "signal":
                self._signal(message["id"], message["number"])
            case "remove":
                self._isolation.remove(message["id"])
            case "listen":
                self._listen(message)
            case "ping":
                self._send({"id": "ping"})
            case other:
                raise ValueError(f"{other!r} is no request")

    def _answer(self, messages: Sequence[Message], action: Callable[[], Message | None]) -> None:
        try:
            result = action() or {}
        except OSError as error:
            result = {"error": error.strerror or str(error)}
        for message in messages:
            self._send({"id": message["id"], **result})
        self._reap()

    def _start(self, message: Message, streams: Streams) -> Message:
        pid = self._isolation.start({**message, "files": self._files}, streams)
        self._pids[message["id"]], self._ids[pid] = pid, message["id"]
        if message.get("memory"):
            self._limits[pid] = message["memory"]
        return {"pid": self._isolation.target(pid)}

    def _listen(self, message: Message) -> None:
        """Send a socket that listens at an address of the network of this process, and at a port that is free."""
        try:
            server = socket.create_server((message["address"], 0))
        except OSError as error:
            self._send({"id": message["id"], "error": error.strerror or str(error)})
            return
        with server:
            self._send({"id": message["id"]}, (server.fileno(),))

    def _signal(self, known: str, number: int) -> None:
        pid = self._pids.get(known)
        if pid is None:
            return
        if number == signal.SIGKILL:
            self._isolation.kill(pid)
            return
        pids = [self._isolation.target(pid)]
        if number in (signal.SIGSTOP, signal.SIGCONT):
            pids += descendants(pids[0], by_parent(processes()))
        for found in pids:
            # A program that the system lets act as another user cannot be signalled; one that has ended need not be.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(found, number)

    def _watch(self) -> None:
        """Kill the containers that use more memory than they may."""
        if not self._limits or time.monotonic() - self._watched < WATCH:
            return
        self._watched = time.monotonic()
        tree = by_parent(processes())
        for pid, limit in self._limits.items():
            if exceeds((pid, *descendants(pid, tree)), limit):
                self._over.add(pid)
                self._isolation.kill(pid)

    def _reap(self) -> None:
        """Look after what has ended: containers, and what they have left, which may have left more."""
        ends = len(self._ends)
        self._collect()
        if len(self._ends) > ends:
            self._report()

    def _collect(self) -> None:
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
                number = self._isolation.ended(pid)
                self._limits.pop(pid, None)
                reason = "OOMKilled" if pid in self._over else ""
                self._over.discard(pid)
                message = {"exit": known, "code": exit_code(status), "reason": reason}
                self._ends.append(_End(number, message, time.monotonic() + LEFT))
            else:
                self._next_check = min(self._next_check, time.monotonic() + WATCH)

    def _report(self) -> None:
        """Report the containers of which nothing is left; look again later for what has started meanwhile."""
        left, now = self._isolation.kill_left(), time.monotonic()
        ends, self._ends = self._ends, [end for end in self._ends if end.number in left and now < end.latest]
        over = [end for end in ends if end.number not in left or now >= end.latest]
        self._next_check = now + (ROUND if self._ends else WATCH) if left or over else math.inf
        for end in over:
            self._send(end.message)

    def _send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        self._outbox.add(json.dumps(message).encode() + b"\n", descriptors)
        self._outbox.flush()


def main() -> None:
    """Serve the socket that was inherited."""
    mode, descriptor = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no name
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    files = raise_files()
    try:
        isolation = NamespaceIsolation() if mode == "namespaces" else Isolation()
    except OSError as error:
        sys.exit(error.strerror)
    control = socket.socket(fileno=descriptor)
    control.sendall(b'{"id": "launcher"}\n')  # the first message always finds room
    Launcher(control, isolation, files).run()
