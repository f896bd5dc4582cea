"""The protocol between the kubelet and what runs its containers; the words are those of the CRI."""

from __future__ import annotations

import math
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from trainshed.api.job import Document
from trainshed.api.quantities import parse_quantity

from .hosts import Hosts

#: The most bytes of all arguments and variables with which Linux starts a program.
MOST = 6 << 20
#: The exit code of a container whose end is not known: it was removed, or what ran it has ended.
KILLED = 137


class StartFailed(Exception):
    """A container cannot be started: its program is missing, or a mount is not possible. The message says why."""


class TooLong(StartFailed):
    """No program can get arguments and variables of this length."""


class Room:
    """What is left of the bytes that all arguments and variables of a container may have."""

    def __init__(self) -> None:
        self._left = MOST

    def take(self, text: str, before: str = "") -> str:
        """Return a text that is added in place of another one; raises `TooLong` if there is no room for it."""
        self._left += bytes_of(before) - bytes_of(text)
        if self._left < 0:
            raise TooLong(f"all arguments and variables together have more than {MOST} bytes")
        return text


def bytes_of(text: str) -> int:
    """Return how many bytes a text has."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def memory_limit(limits: Mapping[str, str]) -> int:
    """Return the limit of memory in bytes, 0 without one; as for a kubelet a part of a byte is a whole one."""
    return math.ceil(parse_quantity(limits.get("memory")) or 0)


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine that the container has at the absolute path `target`."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What the containers of a pod have in common. `folder` is the pod's own and is deleted with it.

    `images` are those of the containers that run at the same time, `host_name` is what they see as their machine's.
    """

    namespace: str
    name: str
    uid: str
    job: str
    folder: Path
    images: tuple[str, ...] = ()
    host_name: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container, its environment and its variable references resolved.

    Without a `command` the image's entry point runs, without a `working_dir` it runs in the image's. The
    `termination_log` is the file that the container has at its `terminationMessagePath`; it is among the mounts.
    `fields` are the names of the variables that are fields of the pod. `limits` are the resource limits as written,
    `gpus` the numbers of the container's GPUs, separated by commas, None if it asks for none.
    """

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    fields: frozenset[str] = frozenset()
    working_dir: str = ""
    mounts: tuple[Mount, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    gpus: str | None = None

    @property
    def visible_gpus(self) -> dict[str, str]:
        """The variable that limits a process of this machine to its GPUs, none if it asks for none."""
        return {} if self.gpus is None else {"CUDA_VISIBLE_DEVICES": self.gpus}


class Process(Protocol):
    """A program that was started."""

    async def wait(self) -> int:
        """Wait for its end; return its exit code, 128+n after signal n."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to its first process; nothing if it has ended.

        SIGKILL, SIGSTOP and SIGCONT are for all its processes.
        """


class Readable(Protocol):
    """A stream of bytes."""

    async def read(self, size: int, /) -> bytes:
        """Return some bytes, at most so many, and none at its end."""
        ...


class RuntimeContainer(Process, Protocol):
    """A container that was started."""

    @property
    def output(self) -> Readable:
        """Standard output and standard error, in the order in which they were written; ends with the container."""

    @property
    def reason(self) -> str:
        """OOMKilled if the container was killed because it used more memory than its limit; known after its end."""

    @property
    def ended_at(self) -> datetime | None:
        """When it has ended, None if that is not known better than by the return of `wait`; known after its end."""

    async def exec(self, command: Sequence[str], streams: tuple[int, int, int]) -> Process:
        """Run another program in the container, as `kubectl exec` does; raises `StartFailed`.

        The descriptors are its standard streams. It ends with the container.
        """
        ...

    async def stacks(self) -> str:
        """Return what `trainshed.stack_dump` prints about the container's processes; raises `StartFailed`."""
        ...


class LogSink(Protocol):
    """Gets the output of all containers."""

    def begin(self, pod: Document, container: str) -> None:
        """Note that a container has been started; what comes next is printed by this run of it."""

    def write(self, pod: Document, container: str, chunk: bytes) -> None:
        """Take some output of a container; a line may be cut anywhere."""

    def end(self, pod: Document, container: str) -> None:
        """Note that a container has ended, and with it its last line."""


class Sandbox(Protocol):
    """What the containers of a pod share: an address and a host name."""

    @property
    def address(self) -> str:
        """The IP address of the pod."""

    async def start(self, spec: ContainerSpec) -> RuntimeContainer:
        """Start a container; raises `StartFailed`."""
        ...

    async def remove(self) -> None:
        """Kill what is left of the pod, and remove it."""
        ...


class Run(Protocol):
    """The run to which containers belong; what killed runs have left outside of its folder is found by their ids."""

    @property
    def id(self) -> str:
        """What no other run has, on any machine, though its folder was copied; begins with the name of the folder."""

    @property
    def known(self) -> str:
        """A text that all runs with the same `root` have, and no others."""

    @property
    def root(self) -> Path:
        """The folder that has all runs and claims."""

    @property
    def pods(self) -> Path:
        """The folder with the volumes that end with the run."""

    @property
    def stuck(self) -> tuple[Path, ...]:
        """The volumes of runs that have ended, which this user cannot remove."""

    def is_over(self, run: str) -> bool | None:
        """Return whether the run with this id has surely ended; None if nothing is known of it here."""
        ...


class Runtime(Protocol):
    """Runs pods on this machine. What it has started ends with the process, however that ends."""

    @property
    def description(self) -> str:
        """How replicas are isolated, for the first line of the output."""

    @property
    def problem(self) -> str:
        """Why the runtime has stopped working, and with it all replicas; empty while it works."""

    async def open(self, hosts: Hosts) -> None:
        """Prepare the network; `hosts` has the names and addresses of all replicas. Raises `StartFailed`."""
        ...

    async def listen(self) -> socket.socket:
        """Return a socket of this process that listens at an address which containers reach; raises `StartFailed`."""
        ...

    async def create_sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Create the sandbox of a pod; raises `StartFailed`."""
        ...

    async def close(self) -> None:
        """Kill everything that is left, and remove the network."""
        ...


#: How accurate the times at which containers ended are: each container has a process that learns of its end and then
#: reads the clock, and on a busy machine these run late and in any order. A kubelet reports them in whole seconds.
ACCURACY, KEPT_ENDS = timedelta(seconds=0.5), 64


class Ends:
    """The times at which the containers of a run have ended; those too near to be in order are made equal.

    The planner then decides by the exit codes which failure came first, as it does with the times of a kubelet.
    """

    def __init__(self) -> None:
        self._times: deque[datetime] = deque(maxlen=KEPT_ENDS)

    def at_once(self, time: datetime | None) -> datetime | None:
        """Return the time of another end that may have been at the same time as this one, else the time itself."""
        if time is None:
            return None
        near = (known for known in self._times if abs(known - time) <= ACCURACY)
        found = min(near, key=lambda known: abs(known - time), default=None)
        if found is None:
            self._times.append(time)
        return found or time
