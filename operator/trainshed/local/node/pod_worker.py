"""One pod of a local run: its containers are started, restarted and ended, and its status is written."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from trainshed.api.job import Document
from trainshed.local import tasks
from trainshed.local.paths import Creation, opened, read, remove, write
from trainshed.local.runtimes.hosts import host_name
from trainshed.local.runtimes.protocol import (
    ContainerSpec,
    LogSink,
    Runtime,
    RuntimeContainer,
    Sandbox,
    SandboxSpec,
    StartFailed,
)
from trainshed.local.stored_objects import Listener, job_name
from trainshed.memory.strategies import DEFAULT_GRACE, bounded_grace

from .container_output import ContainerOutput
from .downward import NodeFacts, limits
from .environment import ConfigError, EnvironmentResolver, Gpus, PodFacts, incomplete, of_fields
from .images import Images
from .pod_status import CREATING, INITIALIZING, NOT_STARTED, ContainerRecord, PodRecord
from .volumes import Volume, Volumes, mounts, termination_log

#: The bytes of a file that become the termination message of a failure.
FILE_BYTES = 4096
#: Seconds between SIGTERM and SIGKILL for a sidecar whose turn comes when the grace period is over.
SHORTEST = 2.0
#: Seconds between two checks whether an earlier pod of the same name has ended.
BEFORE = 0.05
#: Seconds between tries to create a container whose configuration is incomplete.
CONFIG_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class BackOff:
    """The delays between restarts of a container, in seconds; a run of `reset` seconds resets them."""

    first: float = 10.0
    longest: float = 300.0
    reset: float = 600.0

    def delay(self, restarts: int) -> float:
        """Return the delay before a restart after this many quick ones; the first is immediate."""
        return 0.0 if not restarts else min(self.first * 2.0 ** min(restarts - 1, 16), self.longest)


class PodCluster(Protocol):
    """What a kubelet needs of its cluster; `listeners` are called soon after each change."""

    listeners: list[Listener]

    def set_pod_status(self, found: Document, status: Document, node: str = "") -> bool:
        """Replace the status of this very pod, and bind it to the node first; return False if it is gone."""
        ...

    def confirm_deletion(self, found: Document) -> None:
        """Remove a pod whose containers have ended."""


@dataclass(frozen=True, slots=True)
class KubeletDependencies:
    """What all pods share. `pods` is the folder of their volumes, and `admit` returns a pod as it runs here."""

    cluster: PodCluster
    runtime: Runtime
    logs: LogSink
    now: Callable[[], datetime]
    pods: Path
    volumes: Volumes
    resolver: EnvironmentResolver
    gpus: Gpus
    node: NodeFacts
    back_off: BackOff = BackOff()
    images: Images = field(default_factory=Images)
    admit: Callable[[Document], Document] = lambda pod: pod


class PodWorker:
    """Runs one pod in a task of its own, after the tasks `before`: those of earlier pods with its name."""

    def __init__(
        self, pod: Document, dependencies: KubeletDependencies, before: Collection[asyncio.Task[None]] = ()
    ) -> None:
        self._pod = pod
        self._shared = dependencies
        spec = pod["spec"]
        records = [ContainerRecord(item, init=True) for item in spec.get("initContainers") or ()]
        state = INITIALIZING if records else CREATING
        records += [ContainerRecord(item, state=state) for item in spec["containers"]]
        self._record = PodRecord(pod, records, dependencies.now())
        self._folder = dependencies.pods / pod["metadata"]["uid"]
        self._sandbox: Sandbox | None = None
        self._volumes: dict[str, Volume] = {}
        self._facts = PodFacts(pod, "", dependencies.node)
        self._runs: dict[str, RuntimeContainer] = {}
        self._sidecars: dict[str, asyncio.Task[None]] = {}
        self._ended_sidecars: set[str] = set()
        self._stopping = asyncio.Event()
        self._killed: asyncio.TimerHandle | None = None
        self._deleted = self._abandoned = False
        self._kill_reason = ""
        self.over = False
        self.task = tasks.start(self._run(before), f"pod {self.name}")

    @property
    def name(self) -> str:
        """The name of the pod."""
        return str(self._pod["metadata"]["name"])

    @property
    def killed_at(self) -> float | None:
        """When its containers are killed, on the clock of the event loop; None if they have not been asked to end."""
        return self._killed.when() if self._killed else None

    def container(self, name: str = "") -> RuntimeContainer | None:
        """Return the running container of this name, or without one the first of the spec."""
        return self._runs.get(name or self._record.mains[0].name)

    def signal(self, number: int) -> bool:
        """Send a signal to all running containers; return whether there is one."""
        for container in self._runs.values():
            container.signal(number)
        return bool(self._runs)

    def kill(self, reason: str) -> bool:
        """Kill all running containers; return whether there is one. Their status has the reason, if there is one."""
        self._kill_reason = reason
        return self.signal(signal.SIGKILL)

    def disrupt(self, reason: str, message: str) -> None:
        """Add the condition of pods that something is about to end."""
        self._record.disruption = {"reason": reason, "message": message}
        self._report()

    def lose(self) -> None:
        """End the containers at once, and the pod before them."""
        self._shared.cluster.confirm_deletion(self._pod)
        self.stop(0)

    def stop(self, grace: float) -> None:
        """Ask the containers to end, kill them after `grace` seconds, and start none again; sidecars end after them."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._record.stopped = True
            if grace > 0:
                for name in self._runs.keys() - self._sidecars.keys():
                    self._runs[name].signal(signal.SIGTERM)
        self._kill_after(grace)

    def _kill_after(self, grace: float) -> None:
        """Kill the containers after some seconds; a later call can shorten the time."""
        loop = asyncio.get_running_loop()
        if self._killed and not self._killed.cancelled():
            grace = min(grace, self._killed.when() - loop.time())
            self._killed.cancel()
        self._killed = loop.call_later(max(grace, 0.0), self._kill if grace > 0 else self.signal, signal.SIGKILL)

    def _kill(self, number: int) -> None:
        """Kill the containers whose grace period is over, and give a short one to sidecars that had to wait."""
        waited = self._sidecars.keys() - self._ended_sidecars
        for name in self._runs.keys() - waited:
            self._runs[name].signal(number)
        for name in waited:
            self._end_sidecar(name)
        self._killed = asyncio.get_running_loop().call_later(SHORTEST, self.signal, number)

    def _end_sidecar(self, name: str) -> None:
        if name in self._runs.keys() - self._ended_sidecars:
            self._runs[name].signal(signal.SIGTERM)
        self._ended_sidecars.add(name)

    def delete(self, grace: float) -> None:
        """End the pod, and confirm its deletion then; a later call can shorten the grace period."""
        first, self._deleted = not self._deleted, True
        if self.over:
            if first:
                self._confirm()
        else:
            self.stop(grace)

    def refresh(self) -> None:
        """Write the ConfigMaps in the volumes again."""
        try:
            self._shared.volumes.refresh(self._facts, self._folder)
        except (ConfigError, OSError) as error:
            incomplete(error)

    async def ended(self) -> None:
        """Wait until the pod has ended, and remove its volumes."""
        await asyncio.wait({self.task})
        remove(self._folder)

    def abandon(self) -> None:
        """Do not wait for the end of containers any more, nor for their removal."""
        self._abandoned = True
        self.task.cancel()

    async def _run(self, before: Collection[asyncio.Task[None]]) -> None:
        self._report()
        try:
            while not self._stopping.is_set() and not all(task.done() for task in before):
                await self._pause(BEFORE)
            await self._shared.images.wait(self._record.containers, self._stopping, self._report)
            if not self._stopping.is_set() and await self._prepare():
                await self._run_containers()
        except StartFailed as error:
            for record in self._record.mains:
                record.not_started(self._shared.now(), str(error))
        finally:
            await self._end()

    async def _end(self) -> None:
        self._stopping.set()
        if self._killed:
            self._killed.cancel()
        self.signal(signal.SIGKILL)  # after an unexpected error some may run
        if self._sandbox and not self._abandoned:
            with contextlib.suppress(asyncio.CancelledError):  # it was abandoned meanwhile
                await self._sandbox.remove()
        self._shared.gpus.release(self._pod["metadata"]["uid"])
        self._record.stopped = True
        self.over = True
        self._report()
        if self._deleted:
            self._confirm()

    async def _prepare(self) -> bool:
        """Make volumes and sandbox; return False if the pod was stopped before that was possible."""
        metadata = self._pod["metadata"]
        identity = (metadata["namespace"], metadata["name"], metadata["uid"], job_name(self._pod))
        together = [record.spec for record in self._record.containers if record.sidecar or not record.init]
        images = tuple(str(container.get("image", "")) for container in together)
        self._sandbox = await self._shared.runtime.create_sandbox(
            SandboxSpec(*identity, self._folder, images, host_name(self._pod))
        )
        self._record.address = self._sandbox.address
        self._facts = PodFacts(self._pod, self._sandbox.address, self._shared.node)
        while not self._stopping.is_set():
            try:
                self._volumes = self._shared.volumes.make(self._facts, self._folder)
            except (ConfigError, OSError) as error:
                self._wait_all("CreateContainerConfigError", incomplete(error))
                await self._pause(CONFIG_RETRY)
            else:
                self._report()
                return True
        return False

    async def _run_containers(self) -> None:
        """Run all containers; sidecars end after the others, each when the one after it has ended (KEP-753)."""
        for record in self._record.inits:
            if record.sidecar:
                task = tasks.start(self._run_container(record), f"container {record.name} of pod {self.name}")
                self._sidecars[record.name] = task
                while not record.started and not task.done():  # noqa: ASYNC110 - soon enough
                    await asyncio.sleep(0.01)
                continue
            await self._run_container(record)
            if record.exit_code != 0 or self._stopping.is_set():
                break
        else:
            await asyncio.gather(*(self._run_container(record) for record in self._record.mains))
        self._stopping.set()
        if self._sidecars:
            self._kill_after(bounded_grace(self._pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)))
        for name in reversed(self._sidecars):
            self._end_sidecar(name)
            await asyncio.wait({self._sidecars[name]})

    async def _run_container(self, record: ContainerRecord) -> None:
        """Run a container until it has ended for good."""
        quick = 0
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            code = await self._run_once(record)
            if code is None or not self._restarts(record, code):
                break
            back_off = self._shared.back_off
            quick = 0 if asyncio.get_running_loop().time() - began >= back_off.reset else quick
            if delay := back_off.delay(quick):
                text = f"back-off {delay:.0f}s restarting failed container={record.name} pod={self.name}"
                record.wait("CrashLoopBackOff", text)
                self._report()
                await self._pause(delay)
            quick += 1
        if "waiting" in record.state and self._stopping.is_set() and "terminated" in record.last_state:
            record.state, record.last_state = record.last_state, {}

    def _restarts(self, record: ContainerRecord, code: int) -> bool:
        if self._stopping.is_set():
            return False
        if record.sidecar:
            return True
        if record.init:
            return code != 0 and self._record.policy != "Never"
        return self._record.policy == "Always" or (self._record.policy == "OnFailure" and code != 0)

    async def _run_once(self, record: ContainerRecord) -> int | None:
        """Run a container once; return its exit code, None if the pod was stopped before it could start."""
        log = self._folder / f"{record.name}.termination"
        try:
            container = await self._create(record, log)
        except StartFailed as error:
            record.not_started(self._shared.now(), str(error))
            self._report()
            return NOT_STARTED
        if container is None:
            return None
        self._runs[record.name] = container
        record.run(self._shared.now())
        if self._stopping.is_set() and (not record.sidecar or record.name in self._ended_sidecars):
            container.signal(signal.SIGTERM)
        self._report()
        output = ContainerOutput(container, self._shared.logs, self._pod, record.name)
        code = await container.wait()
        await output.drain()
        del self._runs[record.name]
        text = self._termination_message(record, log, code, output)
        record.end(code, container.ended_at or self._shared.now(), text, self._kill_reason or container.reason)
        self._kill_reason = ""
        self._report()
        return code

    async def _create(self, record: ContainerRecord, log: Path) -> RuntimeContainer | None:
        """Start a container as soon as its configuration is complete, whatever the restart policy; None if stopped."""
        sandbox = self._sandbox
        while sandbox and not self._stopping.is_set():
            try:
                return await sandbox.start(self._spec(record, log))
            except (ConfigError, OSError) as error:
                record.wait("CreateContainerConfigError", incomplete(error))
            self._report()
            await self._pause(CONFIG_RETRY)
        return None

    def _spec(self, record: ContainerRecord, log: Path) -> ContainerSpec:
        container = record.spec
        program = self._shared.resolver.program(container, self._facts)
        self._folder.mkdir(parents=True, exist_ok=True)
        with opened(self._folder) as folder:  # the container that ran before may have put a link in its place
            write(folder, log.name, b"", Creation(0o700, 0o666))
        named = {"HOSTNAME": host_name(self._pod)}  # which every runtime of a node sets
        return ContainerSpec(
            name=container["name"],
            image=str(container.get("image", "")),
            command=program.command,
            args=program.args,
            env=named | program.env,
            fields=of_fields(container) | (named.keys() - program.env.keys()),
            working_dir=str(container.get("workingDir") or ""),
            mounts=(*mounts(container, self._volumes, program.env), termination_log(container, log)),
            limits=limits(container, self._pod["spec"]),
            gpus=None if record.init else self._shared.gpus.take(self._pod["metadata"]["uid"], container),
        )

    def _termination_message(self, record: ContainerRecord, log: Path, code: int, output: ContainerOutput) -> str:
        written = read(log, FILE_BYTES)
        if not written and code and record.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            written = output.end
        return written.decode(errors="replace")

    def _wait_all(self, reason: str, message: str) -> None:
        for record in self._record.containers:
            record.wait(reason, message)
        self._report()

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the pod is stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _report(self) -> None:
        self._shared.cluster.set_pod_status(self._pod, self._record.status(self._shared.now()), self._shared.node.name)

    def _confirm(self) -> None:
        remove(self._folder)
        self._shared.cluster.confirm_deletion(self._pod)
