"""The runtime for Linux: each replica has its own network, host name and mounts, without root."""

from __future__ import annotations

import shutil
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .hosts import GATEWAY, PREFIX_LENGTH, Hosts
from .launcher_client import LaunchedContainer, LauncherClient
from .protocol import ContainerSpec, Mount, SandboxSpec, StartFailed
from .python import Python

#: Runs a command as root of new namespaces; it is killed with its parent, and all of the namespaces with it.
UNSHARE = (
    *("unshare", "--user", "--map-root-user", "--mount", "--net", "--uts", "--ipc", "--pid"),
    *("--fork", "--kill-child=KILL", "--"),
)
NEEDED = ("unshare", "ip")
#: The folders of this program, which launchers of MPI jobs run.
OWN = (Path(sys.prefix), Path(__file__).parents[3])


@dataclass(frozen=True, slots=True)
class NamespaceSandbox:
    """Implements `protocol.Sandbox`."""

    spec: SandboxSpec
    address: str
    runtime: NamespaceRuntime

    async def start(self, spec: ContainerSpec) -> LaunchedContainer:
        """Start a container; raises `StartFailed`."""
        return await self.runtime.start(self.spec, spec)

    async def remove(self) -> None:
        """Remove the network of the pod; the kernel has killed its containers' processes."""
        self.runtime.remove(self.spec)


@dataclass(slots=True)
class NamespaceRuntime:
    """Implements `protocol.Runtime`.

    `folder` is for the files that all containers mount, `current` is the folder in which they start.
    """

    python: Python
    folder: Path
    current: Path
    _client: LauncherClient = field(default_factory=lambda: LauncherClient("namespaces", UNSHARE))
    _hosts: Hosts = field(default_factory=Hosts)

    @property
    def description(self) -> str:
        """How replicas are isolated."""
        return f"Linux namespaces, one address for each replica, no Internet, {self.python.description}"

    @property
    def problem(self) -> str:
        """Why the runtime has stopped working; empty while it works."""
        return self._client.problem

    async def open(self, hosts: Hosts) -> None:
        """Create the bridge; raises `StartFailed` where the machine does not permit namespaces."""
        for program in NEEDED:
            if not shutil.which(program):
                raise StartFailed(f"{program} is not installed")
        self._hosts = hosts
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "root").mkdir(exist_ok=True)
        await self._client.open()
        await self._client.request({"op": "sandbox", "id": "bridge", "address": str(GATEWAY), "prefix": PREFIX_LENGTH})

    async def listen(self) -> socket.socket:
        """Return a socket that listens on the bridge; raises `StartFailed`."""
        return await self._client.listen(str(GATEWAY))

    async def create_sandbox(self, spec: SandboxSpec) -> NamespaceSandbox:
        """Create the network of a pod; raises `StartFailed`."""
        address = self._hosts.address(spec.namespace, spec.name)
        message = {"op": "sandbox", "id": spec.uid, "address": address, "prefix": PREFIX_LENGTH}
        await self._client.request(message | {"hostname": spec.host_name})
        return NamespaceSandbox(spec, address, self)

    async def start(self, pod: SandboxSpec, spec: ContainerSpec) -> LaunchedContainer:
        """Start a container; raises `StartFailed`."""
        hosts = self._hosts.file(self.folder, self._hosts.own_line(pod.namespace, pod.name, pod.host_name))
        mounts = (*spec.mounts, Mount(hosts, "/etc/hosts", read_only=True))
        return await self._client.start(
            {
                "sandbox": pod.uid,
                "argv": [*spec.command, *spec.args],
                "env": self.python.environment(spec.visible_gpus | dict(spec.env)),
                "cwd": spec.working_dir or str(self.current),
                "root": str(self.folder / "root"),
                "mounts": [[str(mount.source), mount.target, mount.read_only] for mount in mounts],
                "keep": [str(path) for path in (*self.python.folders, *OWN, self.current)],
            },
            spec.limits,
        )

    def remove(self, pod: SandboxSpec) -> None:
        """Remove the network of a pod."""
        self._client.send({"op": "remove", "id": pod.uid})

    async def close(self) -> None:
        """Kill everything that is left; the kernel removes the namespaces with the last process."""
        await self._client.close()
