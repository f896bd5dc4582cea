"""The runtime for machines without namespaces: replicas are processes on the loopback, with ports of their own."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.local.run_folder import remove_links
from trainshed.local.state_folder import parents

from .hosts import LOOPBACK, Hosts, Ports, loopback_text, on_loopback
from .launcher_client import LaunchedContainer, LauncherClient
from .protocol import ContainerSpec, SandboxSpec
from .python import Python

#: Paths that mean one path everywhere: in words of a shell without quotes, and in lists of paths.
PLAIN = re.compile(r"[\w@%+=./-]+", re.ASCII)


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

    `own_ports` are the ports of each pod's containers, by pod name, `current` is the folder in which they start,
    `links` is where to note a folder of links that the run makes, for the next run if this one is killed.
    """

    python: Python
    ports: Ports
    own_ports: Mapping[str, frozenset[int]]
    current: Path
    links: Path
    _client: LauncherClient = field(default_factory=lambda: LauncherClient("processes"))
    _hosts: Hosts = field(default_factory=Hosts)
    _paths: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    _plain: dict[str, str] = field(default_factory=dict)

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

    async def create_sandbox(self, spec: SandboxSpec) -> ProcessSandbox:
        """Return the sandbox of a pod, which is only its name."""
        return ProcessSandbox(spec, self)

    async def start(self, pod: SandboxSpec, spec: ContainerSpec) -> LaunchedContainer:
        """Start a container; raises `StartFailed`."""
        own = (pod.name, self.own_ports.get(pod.name, frozenset()))
        env = on_loopback(spec.visible_gpus | dict(spec.env), self._hosts, self.ports, own)
        env |= {name: spec.env[name] for name in spec.fields}  # the name of the pod tells replicas apart
        paths = self._paths_of(pod, spec)
        words = [loopback_text(word, self._hosts, self.ports) for word in (*spec.command, *spec.args)]
        return await self._client.start(
            {
                "argv": [with_paths(word, paths) for word in words],
                "env": self.python.environment({name: with_paths(text, paths) for name, text in env.items()}),
                "cwd": with_paths(spec.working_dir, paths) or str(self.current),
            },
            spec.limits,
        )

    def _paths_of(self, pod: SandboxSpec, spec: ContainerSpec) -> dict[str, str]:
        """Return the paths of mounts; the launcher of an MPIJob has those of its workers, whose ranks it starts."""
        sources = {mount.target: str(mount.source) for mount in spec.mounts if mount.target != str(mount.source)}
        own = {target: self._plain_path(source) for target, source in sources.items()}
        self._paths.setdefault(pod.job, {}).setdefault(pod.name, {}).update(own)
        if pod.name != f"{pod.job}-launcher":
            return own
        others = {target: source for paths in self._paths[pod.job].values() for target, source in paths.items()}
        return others | own

    def _plain_path(self, path: str) -> str:
        """Return a path, or that of a link to it where scripts that do not quote it would take it for several words.

        With a space in it, `rm -rf /data/old` could remove another folder. Raises OSError and `Unusable`.
        """
        if PLAIN.fullmatch(path):
            return path
        if path not in self._plain:
            if not self.links.is_symlink():
                place = tempfile.gettempdir()
                place = place if PLAIN.fullmatch(place) else "/tmp"  # noqa: S108 # nosec B108
                list(parents(Path(place)))
                self.links.symlink_to(tempfile.mkdtemp(prefix="trainshed-", dir=place))
            link = self.links.readlink() / str(len(self._plain))
            link.symlink_to(path)
            self._plain[path] = str(link)
        return self._plain[path]

    async def close(self) -> None:
        """Kill everything that is left."""
        await self._client.close()
        self.ports.close()
        remove_links(self.links)


def with_paths(text: str, paths: Mapping[str, str]) -> str:
    """Return the text with the folder of this machine in place of each path at which it is mounted."""
    if not paths:
        return text
    known = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    pattern = rf"(?<![\w./-])({known})(?=/|$|[\s:;,'\"])"
    return re.sub(pattern, lambda found: paths[found[1]].rstrip(os.sep), text)
