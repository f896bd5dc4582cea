"""The runtime on docker or podman: each container runs the image of its template, on a network of the run."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from itertools import count
from pathlib import Path

from trainshed.api.job import Document
from trainshed.api.quantities import parse_quantity
from trainshed.local.mounts import mounts_below
from trainshed.local.paths import remove
from trainshed.process import Clock

from .docker_cli import DockerCli
from .docker_container import DockerContainer, Engine
from .hosts import Hosts
from .leftovers import NETWORK, RUN_LABEL, RUNS_LABEL, Leftovers
from .protocol import ContainerSpec, Ends, Mount, Run, RuntimeContainer, SandboxSpec, StartFailed, memory_limit

#: Networks are parts of the range for benchmarks of networks (RFC 2544), each with this many addresses or more.
RANGE, SMALLEST = IPv4Network("198.18.0.0/15"), 1024
#: What docker and podman say about a network whose addresses are in use.
IN_USE = ("overlap", "already used", "already being used")
END_OF_LINE = "\r\n"
#: Microseconds of the period in which a container gets its share of the processors; the kernel's default.
PERIOD = 100_000
#: Seconds for which the removal of all containers is awaited, also where it goes on later, and between two questions
#: whether the engine works.
END, FIRST, PING = 60.0, 5.0, 10.0


@dataclass(frozen=True, slots=True)
class DockerSandbox:
    """Implements `protocol.Sandbox`.

    `holder` is the container that has the network of the pod if several containers share it; without one the only
    container has it. `containers` are the newest ones, by their names in the pod.
    """

    runtime: DockerRuntime
    spec: SandboxSpec
    address: str
    holder: str
    containers: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    async def start(self, spec: ContainerSpec) -> RuntimeContainer:
        """Start a container, and remove the one that ran before with what it has written; raises `StartFailed`."""
        name = self.runtime.container_name(self.spec, f"{spec.name}.{next(self.numbers)}")
        if before := self.containers.get(spec.name):
            self.runtime.later("rm", "--force", "--volumes", before)
        self.containers[spec.name] = name
        cli = self.runtime.cli
        words = (
            "--name",
            name,
            *cli.log_words(),
            *self.runtime.labels(),
            *self._network(),
            *container_words(spec, cli, self.runtime.is_own),
        )
        await cli.create(words, spec.env)
        await cli.run("start", name)
        log = await cli.follow("logs", "--follow", name)
        container = DockerContainer(self.runtime.engine, name, log, limited="memory" in spec.limits)
        self.runtime.running[name] = container
        return container

    async def remove(self) -> None:
        """Remove the containers, and the files in the pod's folder that belong to their users."""
        with contextlib.suppress(StartFailed, OSError):
            if left := [*self.containers.values(), *([self.holder] if self.holder else ())]:
                await self.runtime.cli.run("rm", "--force", "--volumes", *left)
            await self._remove_files()

    async def _remove_files(self) -> None:
        """Let a container delete what only its user can delete."""
        remove(self.spec.folder)
        if not self.spec.folder.exists() or mounts_below(self.spec.folder):
            return  # the engine mounts with a folder what is mounted in it
        mount = mount_words([Mount(self.spec.folder, "/folder")], self.runtime.is_own)
        paths = [f"/folder/{path.name}" for path in self.spec.folder.iterdir()]
        words = ("run", "--rm", "--network", "none", *self.runtime.labels(), *mount)
        await self.runtime.cli.run(*words, "--entrypoint", "rm", self.spec.images[0], "-rf", *paths)

    def _network(self) -> list[str]:
        hosts = mount_words(
            [Mount(self.runtime.hosts_file(self.spec), "/etc/hosts", read_only=True)], self.runtime.is_own
        )
        if self.holder:
            return ["--network", f"container:{self.holder}", "--ipc", f"container:{self.holder}", *hosts]
        return ["--network", self.runtime.network, "--ip", self.address, "--hostname", self.spec.host_name, *hosts]


class DockerRuntime:
    """Implements `protocol.Runtime`.

    `images` are those of the jobs, each with its imagePullPolicy; `say` prints a line. `missing` are those to be
    pulled, known once it is open.
    """

    def __init__(self, program: str, run: Run, images: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._run = run
        self.cli = DockerCli(program)
        self.network = f"{NETWORK}{run.id}"
        self.engine = Engine(self.cli, self.labels(), Clock().now, Ends(), say, self._keep)
        self.running: dict[str, DockerContainer] = {}
        self._images = images
        self.missing: list[str] = []
        self._say = say
        self._version = ""
        self._hosts = Hosts()
        self._left = Leftovers(self.cli, run, say)
        self._reaper: asyncio.subprocess.Process | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def problem(self) -> str:
        """Why the engine has stopped working; empty while it works."""
        return f"{self.cli.program} has stopped working: {self.cli.problem}" if self.cli.problem else ""

    @property
    def description(self) -> str:
        """How replicas are isolated."""
        return f"containers of {self.cli.program} {self._version} with the images of the job, on a network of their own"

    async def open(self, hosts: Hosts) -> None:
        """Remove what killed runs have left, look for the images, and create the network; raises `StartFailed`."""
        self._version = await self.cli.version()
        await self._left.remove()
        await self._find_images()
        own = (f"{RUN_LABEL}={self._run.id}", f"{RUNS_LABEL}={self._run.known}")
        self._reaper = await self.cli.start_reaper(own, self.network)
        hosts.gateway = (await self._create_network(len(hosts)))[1]
        self._hosts = hosts
        self._keep(asyncio.create_task(self._watch()))

    async def listen(self) -> socket.socket:
        """Return a socket that listens on the gateway of the network; raises `StartFailed`."""
        try:
            return socket.create_server((str(self._hosts.gateway), 0))
        except OSError:  # the engine is that of a virtual machine, or has a network of its own
            raise StartFailed(f"containers of this {self.cli.program} do not reach programs of this machine") from None

    async def pull(self) -> None:
        """Pull the images that are missing, with which killed runs are then cleaned up; raises `StartFailed`."""
        for image in self.missing:
            self._say(f"pulling image {image}; Ctrl-C ends it")
            try:
                await self.cli.pull(in_full(image), self._still_pulling)
            except StartFailed as error:
                raise StartFailed(f"cannot pull image {image}: {error}") from error
        await self._left.empty(self._images, self._with_folder)

    async def create_sandbox(self, spec: SandboxSpec) -> DockerSandbox:
        """Reserve the address of a pod; raises `StartFailed`."""
        address, holder = self._hosts.address(spec.namespace, spec.name), ""
        if len(spec.images) > 1:
            holder = self.container_name(spec, "network")
            network = ("--network", self.network, "--ip", address, "--hostname", spec.host_name, "--ipc", "shareable")
            words = ("run", "--detach", "--name", holder, *self.labels(), *network)
            try:
                await self.cli.run(*words, "--entrypoint", "sleep", spec.images[0], "365d")
            except StartFailed as error:
                raise StartFailed(f"cannot start the container that keeps the network of the pod: {error}") from error
        return DockerSandbox(self, spec, address, holder)

    async def close(self) -> None:
        """Remove all containers, and the network."""
        for task in self._tasks:
            task.cancel()
        if self._reaper and self._reaper.stdin:
            if not self.cli.unfinished:
                self._reaper.stdin.write(b"ended\n")
            self._reaper.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reaper.wait(), FIRST if self.cli.unfinished else END)

    def hosts_file(self, pod: SandboxSpec) -> Path:
        """Return the file that a pod has as /etc/hosts."""
        return self._hosts.file(self._run.pods, self._hosts.own_line(pod.namespace, pod.name, pod.host_name))

    def labels(self) -> tuple[str, ...]:
        """Return the options with the labels of the run."""
        return ("--label", f"{RUN_LABEL}={self._run.id}", "--label", f"{RUNS_LABEL}={self._run.known}")

    def is_own(self, mount: Mount) -> bool:
        """Return whether a mount is a part of a volume, which SELinux may give the label of containers.

        Host paths keep their labels. The folder with the socket is one of them: no label lets a container connect to
        a program outside.
        """
        own = mount.source.is_relative_to(self._run.root) and mount.source != self._run.pods / "exec"
        return own and ":" not in f"{mount.source}{mount.target}"

    def container_name(self, pod: SandboxSpec, name: str) -> str:
        """Return the name of a container: the run, the pod, a part of its uid, and a name in the pod."""
        return f"{self._run.id}.{pod.name}.{pod.uid[:8]}.{name}"

    def later(self, *words: str) -> None:
        """Run a command that may fail, without waiting for it."""
        self._keep(asyncio.create_task(self._try(*words)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _with_folder(self, folder: Path) -> list[str]:
        return [*self.labels(), *mount_words([Mount(folder, "/folder")], self.is_own)]

    async def _try(self, *words: str) -> None:
        with contextlib.suppress(StartFailed):
            await self.cli.run(*words)

    async def _find_images(self) -> None:
        for image, policy in self._images.items():
            try:
                if policy != "Always":
                    await self.cli.run("image", "inspect", "--format", "{{.Id}}", image)
                    continue
            except StartFailed:
                if policy == "Never":
                    raise StartFailed(f"image {image} is not here, and its imagePullPolicy is Never") from None
            self.missing.append(image)

    def _still_pulling(self, seconds: float) -> None:
        self._say(f"still pulling after {seconds:.0f} s; {self.cli.program} answers, so the registry may be slow")

    async def _watch(self) -> None:
        """Note a problem if the engine does not answer, and what has ended though its log goes on."""
        while not self.problem:
            await asyncio.sleep(PING)
            self.running = {name: container for name, container in self.running.items() if not container.over}
            for name in await self.cli.check(f"{RUN_LABEL}={self._run.id}"):
                if name in self.running:
                    self.running[name].note_end()

    async def _create_network(self, pods: int) -> IPv4Network:
        """Create the network with addresses that no other network of the engine has; raises `StartFailed`."""
        problem = ""
        for subnet in subnets(pods, os.getpid()):
            try:
                await self.cli.run("network", "create", *self.labels(), "--subnet", str(subnet), self.network)
            except StartFailed as error:
                problem = str(error)
                if not any(text in problem for text in IN_USE):
                    break
            else:
                return subnet
        raise StartFailed(f"cannot create a network: {problem}")


def subnets(pods: int, first: int) -> Iterator[IPv4Network]:
    """Yield the parts of the range that have enough addresses, beginning with one that depends on `first`."""
    needed = max(SMALLEST, pods + 3)  # those of the network, of its gateway, and for broadcasts
    found = list(RANGE.subnets(new_prefix=32 - (needed - 1).bit_length()))
    for index in range(len(found)):
        yield found[(first + index) % len(found)]


def container_words(spec: ContainerSpec, cli: DockerCli, is_own: Callable[[Mount], bool]) -> list[str]:
    """Return the options, the image and the arguments of a container; SELinux confines it if all mounts are own."""
    words = [*mount_words(spec.mounts, is_own), *_limits(spec.limits)]
    if not all(map(is_own, spec.mounts)):
        words += ["--security-opt", "label=disable"]
    if spec.working_dir:
        words += ["--workdir", spec.working_dir]
    if spec.gpus and cli.program == "podman":
        words += [f"--device=nvidia.com/gpu={number}" for number in spec.gpus.split(",")]
    elif spec.gpus:
        words += ["--gpus", f'"device={spec.gpus}"']
    if spec.command:
        words += ["--entrypoint", spec.command[0]]
    return [*words, spec.image, *spec.command[1:], *spec.args]


def mount_words(mounts: Iterable[Mount], is_own: Callable[[Mount], bool]) -> list[str]:
    """Return the options for mounts; those of host paths have lines of CSV as values.

    Own ones get the label of containers where SELinux is enforced, for which docker has an option of `--volume` only.
    """
    words = []
    for mount in mounts:
        if is_own(mount):
            words += ["--volume", f"{mount.source}:{mount.target}:{'ro,' if mount.read_only else ''}z"]
            continue
        fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
        line = io.StringIO()  # the writer quotes only those ends of lines that it writes itself
        csv.writer(line, lineterminator=END_OF_LINE).writerow([*fields, *(["readonly"] if mount.read_only else ())])
        words += ["--mount", line.getvalue().removesuffix(END_OF_LINE)]
    return words


def _limits(limits: Mapping[str, str]) -> list[str]:
    """Return the options for limits of memory and processors. Like a kubelet, a container gets no swap."""
    words = []
    if memory := memory_limit(limits):
        words += ["--memory", str(memory), "--memory-swap", str(memory)]
    if processors := parse_quantity(limits.get("cpu")):
        words += ["--cpu-period", str(PERIOD), "--cpu-quota", str(max(int(processors * PERIOD), 1000))]
    return words


def in_full(image: str) -> str:
    """Return the name of an image with its registry, which is docker.io where none is given, as for a kubelet.

    podman pulls no image without one unless its configuration lists registries to search.
    """
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    return image if "." in first or ":" in first or first == "localhost" else f"docker.io/{image}"


def images_of(pods: Iterable[Document]) -> dict[str, str]:
    """Return the images of pods with their imagePullPolicy, which is empty where it is not given."""
    found: dict[str, str] = {}
    for pod in pods:
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            image = str(container.get("image", ""))
            found[image] = found.get(image) or str(container.get("imagePullPolicy") or "")
    return found
