"""The runtime for machines without namespaces: replicas are processes on the loopback, with ports of their own."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .hosts import LOOPBACK, Hosts, NoPort, Ports, loopback_text, on_loopback
from .launcher_client import LaunchedContainer, LauncherClient
from .protocol import ContainerSpec, Room, SandboxSpec, StartFailed
from .python import Python
from .replaced_paths import ReplacedPaths, with_paths


@dataclass(frozen=True, slots=True)
class ProcessSandbox:
    """Implements `protocol.Sandbox`."""

    spec: SandboxSpec
    runtime: ProcessRuntime
    address: str = LOOPBACK

    async def start(self, spec: ContainerSpec) -> LaunchedContainer:
        """Start a container; raises `StartFailed`."""
        return await self.runtime.start(self.spec, spec)

    async def remove(self) -> None:
        """Do nothing: the launcher has killed what a container has left."""


@dataclass(slots=True)
class ProcessRuntime:
    """Implements `protocol.Runtime`.

    `own_ports` are the ports of each pod's containers, by pod name, `current` is the folder in which they start.
    """

    python: Python
    ports: Ports
    own_ports: Mapping[str, frozenset[int]]
    current: Path
    paths: ReplacedPaths
    _client: LauncherClient = field(default_factory=lambda: LauncherClient("processes"))
    _hosts: Hosts = field(default_factory=Hosts)

    @property
    def description(self) -> str:
        """How replicas are isolated."""
        return f"processes on 127.0.0.1 with ports of their own, {self.python.description}"

    @property
    def problem(self) -> str:
        """Why the runtime has stopped working; empty while it works."""
        return self._client.problem

    async def open(self, hosts: Hosts) -> None:
        """Start the launcher; raises `StartFailed`."""
        self._hosts = hosts
        await self._client.open()

    async def listen(self) -> socket.socket:
        """Return a socket that listens on the loopback."""
        return socket.create_server((LOOPBACK, 0))

    async def create_sandbox(self, spec: SandboxSpec) -> ProcessSandbox:
        """Return the sandbox of a pod, which is only its name."""
        return ProcessSandbox(spec, self)

    async def start(self, pod: SandboxSpec, spec: ContainerSpec) -> LaunchedContainer:
        """Start a container; raises `StartFailed`."""
        own = (pod.name, self.own_ports.get(pod.name, frozenset()))
        try:
            env = on_loopback(spec.visible_gpus | dict(spec.env), self._hosts, self.ports, own)
            words = [loopback_text(word, self._hosts, self.ports) for word in (*spec.command, *spec.args)]
        except NoPort as error:
            raise StartFailed(str(error)) from error
        env |= {name: spec.env[name] for name in spec.fields}  # the name of the pod tells replicas apart
        paths = self.paths.of(pod, spec)
        room = Room()
        return await self._client.start(
            {
                "argv": [room.take(with_paths(word, paths)) for word in words],
                "env": self.python.environment(
                    {name: room.take(with_paths(text, paths)) for name, text in env.items()}
                ),
                "cwd": with_paths(spec.working_dir, paths) or str(self.current),
            },
            spec.limits,
        )

    async def close(self) -> None:
        """Kill everything that is left."""
        await self._client.close()
        self.ports.close()
        self.paths.close()
