"""The runtime of a run: the one that the user names, or the first that this machine permits."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from trainshed.api.framework import child_name
from trainshed.api.job import Document
from trainshed.local.node import mpi_pods, volumes
from trainshed.local.node.images import Images
from trainshed.local.runtimes.docker import DockerRuntime, images_of
from trainshed.local.runtimes.docker_cli import ENGINES
from trainshed.local.runtimes.hosts import Hosts, Ports
from trainshed.local.runtimes.linux_namespaces import NamespaceRuntime
from trainshed.local.runtimes.processes import ProcessRuntime
from trainshed.local.runtimes.protocol import Runtime, StartFailed
from trainshed.local.runtimes.python import Python, find_python, with_names
from trainshed.local.runtimes.replaced_paths import ReplacedPaths

from . import differences, references
from .options import LocalJob, Options, Refused
from .run_folder import MARK, RunFolder

#: What is said of jobs whose keys of ssh the operator makes, where the package for it is missing.
WITHOUT_KEYS = (
    "MPIJob of v2beta1: its keys of ssh need the Python package cryptography: pip install 'trainshed[operator]'"
)


class RuntimeChoice:
    """Makes the runtime of a run, and knows what it means for the jobs.

    `name` is that of the runtime, once it is open, `ignored` what has no effect with it, and `images` what it pulls.
    `secret` lets launchers of MPIJobs run commands in their workers.
    """

    def __init__(self, options: Options, folder: RunFolder, say: Callable[[str], None]) -> None:
        self._options = options
        self._folder = folder
        self._exec_folder = folder.pods / "exec"
        self._say = say
        self._mpi = {item.framework.version for item in options.jobs if item.job.kind == "MPIJob"}
        self.secret = secrets.token_hex(16)
        self.name = ""
        self.ignored: list[str] = []
        self.images = Images()

    async def open(self, hosts: Hosts) -> Runtime:
        """Return a runtime that works; raises `Refused`, and `python.NoPython`."""
        wanted, why = self._options.runtime, ""
        for name in ("namespaces", "processes") if wanted == "auto" else (wanted,):
            self.name = name
            runtime = self._make(name)
            try:
                await runtime.open(hosts)
            except StartFailed as error:
                await runtime.close()
                why = f"{name}: {error}"
                if name == wanted:
                    raise self._refusal(error) from error
            else:
                if why:
                    self._say(f"not with Linux namespaces, which this machine does not permit ({why})")
                return runtime
        raise Refused(f"no runtime works on this machine: {why}")

    async def get_images(self, ended: asyncio.Event) -> None:
        """Pull the images that are missing, while pods wait for them, unless the run is `ended`; raises `Refused`."""
        try:
            await self.images.get(ended)
        except StartFailed as error:
            ended.set()
            raise self._refusal(error) from error

    def _refusal(self, error: StartFailed) -> Refused:
        return Refused(f"cannot run jobs with --runtime {self.name}: {error}")

    @property
    def in_containers(self) -> bool:
        """Whether replicas run in containers of an engine."""
        return self.name in ENGINES

    @property
    def mpi_folder(self) -> Path | None:
        """The folder with the programs of MPI launchers, None if there is no MPIJob."""
        return self._exec_folder if self._mpi else None

    def rewrite(self, volume: str, content: bytes) -> bytes:
        """Return the content of a file in a volume of this name."""
        if not self._mpi or self.name != "processes" or volume != mpi_pods.CONFIG:
            return content
        jobs = [item.job for item in self._options.jobs if item.job.kind == "MPIJob"]
        names = ((job, child_name(job, replica)) for job in jobs for replica in job.all_replicas)
        pods = [(pod, f"{pod}.{job.name}.{job.namespace}.svc") for job, pod in names]
        text = mpi_pods.on_one_host(content.decode(), chain(*pods))
        return os.fsencode(text.replace(mpi_pods.KUBECTL, shlex.quote(f"{self._exec_folder}/kubectl")))

    def admitted(self, pod: Document) -> Document:
        """Return a pod as it is created with this runtime."""
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "MPIJob":
                return self._admitted(pod, str(owner["apiVersion"]).rpartition("/")[2])
        return pod

    def pods(self, item: LocalJob) -> list[Document]:
        """Return the pods of a job as they are created with this runtime."""
        if item.job.kind != "MPIJob":
            return list(item.pods)
        return [self._admitted(pod, item.framework.version) for pod in item.pods]

    def _admitted(self, pod: Document, version: str) -> Document:
        return mpi_pods.admitted(pod, version, self._exec_folder, self.secret, in_containers=self.in_containers)

    def _make(self, name: str) -> Runtime:
        """Return the runtime of this name; raises `Refused` if a job would mean something else with it."""
        if name in ENGINES:
            self._check("")
            self._write_mpi_programs()
            images = images_of(pod for item in self._options.jobs for pod in self.pods(item))
            docker = DockerRuntime(name, self._folder, images, self._say)
            self.images = Images(docker)
            return docker
        python = self._python()
        self._check(python.environment({})["PATH"])
        self._write_mpi_programs()
        if name == "namespaces":
            return NamespaceRuntime(python, self._folder.pods / "shared", current_folder())
        return ProcessRuntime(python, Ports(), self._own_ports(), current_folder(), ReplacedPaths(self._folder.links))

    def _python(self) -> Python:
        folder = self._folder.pods / "bin"
        return with_names(find_python(self._options.python), folder, ((MARK, self._folder.id),))

    def _write_mpi_programs(self) -> None:
        """Write what launchers of MPIJobs call; those of v2beta1 find ssh in PATH."""
        folder = self._exec_folder
        if not self._mpi or folder.exists():
            return
        mpi_pods.write_programs(folder, in_containers=self.in_containers)
        if "v2beta1" in self._mpi and self.name not in ENGINES:
            shutil.copy(folder / "ssh", self._folder.pods / "bin" / "ssh")

    def _own_ports(self) -> dict[str, frozenset[int]]:
        return {
            pod["metadata"]["name"]: frozenset(
                int(port["containerPort"])
                for container in pod["spec"]["containers"]
                for port in container.get("ports") or ()
            )
            for item in self._options.jobs
            for pod in item.pods
        }

    def _check(self, path: str) -> None:
        """Raise `Refused` if a job would mean something else; `path` is the PATH of replicas that are processes."""
        if len(self._mpi) > 1:
            raise Refused("MPIJob: Forbidden: a cluster serves one version, v1 or v2beta1; use a file for each")
        if "v2beta1" in self._mpi and find_spec("cryptography") is None:
            raise Refused(WITHOUT_KEYS)
        problems: list[str] = []
        ignored: list[str] = []
        checked: list[tuple[list[Document], Mapping[tuple[str, str], Document]]] = []
        for item in self._options.jobs:
            known = (*self._options.objects, *item.dependents)
            here = (found for found in known if found["metadata"]["namespace"] == item.job.namespace)
            objects = {(found["kind"], found["metadata"]["name"]): found for found in here}
            pods = self.pods(item)
            checked.append((pods, objects))
            problems += differences.refused(pods, objects, runtime=self.name, path=path)
            if self.name == "processes":
                problems += mpi_pods.too_many_slots(item.document, item.job.size)
            problems += volumes.misleading(pods, self._folder.state.path)
            ignored += differences.ignored(item.document, pods, runtime=self.name)
            for claim in differences.missing_claims(pods, objects):
                ignored.append(f"claim {claim} is not in the file (a folder stands for it)")
            if self.name == "namespaces":
                ignored += differences.in_memory(pods, current_folder())
            ignored += (f"hostPath {path}" for path in differences.foreign_host_paths(pods, self._folder.state.path))
        self.ignored = list(dict.fromkeys(ignored))
        if problems := problems or list(references.too_long(checked)):
            raise Refused("\n".join(problems))


def current_folder() -> Path:
    """Return the folder in which replicas start; raises `Refused` if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise Refused("the current folder was removed; change to another one") from None
