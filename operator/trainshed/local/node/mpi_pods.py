"""MPIJobs on this machine: launchers enter their workers through the run instead of `kubectl exec` and `ssh`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainshed.api.job import Document
from trainshed.api.objects import REPLICA_TYPE_LABEL
from trainshed.local.runtimes.hosts import NAME

from . import remote_shell
from .exec_server import SOCKET

#: Where launchers have the socket and the programs.
MOUNTED = "/run/trainshed"
VOLUME = "trainshed-exec"
#: The init container that copies kubectl, and the command that copies the run's own instead.
DELIVERY, COPY = "kubectl-delivery", ["sh", "-c", f"cp {MOUNTED}/kubectl $TARGET_DIR/kubectl"]
#: Where launchers get kubectl from an init container in a cluster.
KUBECTL = "/opt/kube/kubectl"
#: The paths that only the scripts of the operator name, and that runs replace there.
PATHS = ("/etc/mpi", "/opt/kube")
#: The volumes with the operator's scripts and with the keys of ssh.
CONFIG, KEYS = "mpi-job-config", "ssh-auth"
#: What allows Open MPI 4 and 5 to run as root, as which a replica runs in its namespaces.
AS_ROOT = (
    *("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"),
    *("PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"),
)
#: What keeps Open MPI 4 and 5 from binding each rank to a core: the replicas share those of this machine. Two replicas
#: would bind to the same core, and more ranks than the machine has cores are refused.
BINDING = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
STARTER = re.compile(r"(?:^|[\s;&|(])(mpirun|mpiexec|mpiexec\.hydra|horovodrun)(?=$|[\s;&|)])")
#: What stands for each host, a line with the slots of one, and a word that may be one.
LOCAL, SLOTS, HOST = "localhost", re.compile(rf"{NAME}(?: slots=|:)(\d+)"), re.compile(NAME)
#: The most slots of a job on one host, each of which is a line.
MOST_SLOTS = 100_000
#: A worker that waits for its ranks.
SLEEP = ["sleep", str(365 * 24 * 3600)]


def write_programs(folder: Path, *, in_containers: bool) -> None:
    """Write the programs `kubectl` and `ssh` of a run to a folder."""
    folder.mkdir()
    folder.chmod(0o755 if in_containers else 0o700)  # for the users of images
    code = Path(remote_shell.__file__)
    for name in ("kubectl", "ssh"):
        program = folder / name
        if in_containers:
            program.write_text(f"#!/usr/bin/env python3\n{code.read_text(encoding='utf-8')}", encoding="utf-8")
        else:
            call = (
                "from trainshed.local.node.remote_shell import main; import sys;"
                f" sys.exit(main([{name!r}, *sys.argv[1:]]))"
            )
            words = [
                sys.executable,
                "-I",
                "-S",
                "-c",
                f"import sys; sys.path.insert(0, {str(code.parents[3])!r}); {call}",
            ]
            program.write_bytes(os.fsencode(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'))
        program.chmod(0o755)


def admitted(pod: Document, version: str, folder: Path, secret: str, *, in_containers: bool) -> Document:
    """Return a pod of an MPIJob of this version, changed so that its launcher enters workers through the run.

    `folder` has the socket and the programs of the run, and `secret` is what its server wants. Containers of docker or
    podman have what v2beta1 needs: sshd.
    """
    if in_containers and version == "v2beta1":
        return pod
    spec = dict(pod["spec"])
    if not is_launcher(pod):
        return {**pod, "spec": _worker(spec) if version == "v2beta1" else spec}
    mount = {"name": VOLUME, "mountPath": MOUNTED, "readOnly": True}
    variables = {remote_shell.VARIABLE: f"{MOUNTED}/{SOCKET}", remote_shell.SECRET: secret}
    if not in_containers:
        variables |= dict.fromkeys(AS_ROOT, "1") | dict.fromkeys(BINDING, "none")
    first, *others = spec["containers"]
    inits = [_init(container, first["image"]) for container in spec.get("initContainers") or ()]
    changed = [_with(container, mount, variables) for container in (first, *inits)]
    if spec.get("serviceAccountName") == pod["metadata"]["name"]:
        del spec["serviceAccountName"]  # it is the operator's, for kubectl
    spec["containers"] = [changed[0], *others]
    spec["initContainers"] = changed[1:]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": VOLUME, "hostPath": {"path": str(folder)}}]
    return {**pod, "spec": _without_keys(spec)}


def on_one_host(text: str, hosts: Iterable[str]) -> str:
    """Return a hostfile or a script with `localhost` in place of each host, in a hostfile once for each slot.

    Where all replicas have the host name of the machine, Open MPI takes several hosts for one and fails.
    """
    known = frozenset(hosts)

    def replaced(line: str) -> str:
        found = SLOTS.fullmatch(line)
        if found and found[1] in known:
            return "\n".join([LOCAL] * int(found[2]))
        return HOST.sub(lambda word: LOCAL if word[1] in known else word[0], line)

    return "\n".join(map(replaced, text.split("\n")))


def too_many_slots(job: Document, replicas: int) -> Iterator[str]:
    """Yield why the hostfile of an MPIJob on one host would be too long."""
    slots = int(job["spec"].get("slotsPerWorker") or 1)
    if job["kind"] == "MPIJob" and slots * replicas > MOST_SLOTS:
        yield (
            f"MPIJob {job['metadata']['name']}: spec.slotsPerWorker: Invalid value: {slots}: {replicas} replicas have"
            f" more than {MOST_SLOTS} slots, the most of a job with --runtime processes"
        )


def is_launcher(pod: Document) -> bool:
    """Return whether a pod is the launcher of an MPIJob."""
    return (pod["metadata"].get("labels") or {}).get(REPLICA_TYPE_LABEL) == "launcher"


def starters(pod: Document) -> Iterator[tuple[str, str]]:
    """Yield the path of each command of a launcher that starts ranks, and its program, such as mpirun."""
    if not is_launcher(pod):
        return
    for index, container in enumerate(pod["spec"]["containers"]):
        words = (str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))
        for program in dict.fromkeys(found for word in words for found in STARTER.findall(word)):
            yield f"pod {pod['metadata']['name']}: spec.containers[{index}].command", program


def _worker(spec: dict[str, Any]) -> Document:
    """Return the spec of a worker that sleeps instead of running sshd."""
    first, *others = spec["containers"]
    if not first.get("command") or Path(str(first["command"][0])).name == "sshd":
        first = {**first, "command": SLEEP, "args": []}
    return _without_keys({**spec, "containers": [first, *others]})


def _without_keys(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without the volume of ssh keys, which nothing reads."""
    found = dict(spec)
    found["volumes"] = [volume for volume in spec.get("volumes") or () if volume["name"] != KEYS]
    for part in ("initContainers", "containers"):
        found[part] = [
            {**item, "volumeMounts": [mount for mount in item.get("volumeMounts") or () if mount["name"] != KEYS]}
            for item in spec.get(part) or ()
        ]
    return found


def _init(container: Document, image: str) -> Document:
    if container["name"] != DELIVERY:
        return container
    return {**container, "image": image, "command": COPY, "resources": {}}


def _with(container: Document, mount: Document, variables: Mapping[str, str]) -> Document:
    """Return a container with a mount, and with the variables that it does not have."""
    known = {entry["name"] for entry in container.get("env") or ()}
    added = [{"name": name, "value": value} for name, value in variables.items() if name not in known]
    return {
        **container,
        "env": [*(container.get("env") or ()), *added],
        "volumeMounts": [*(container.get("volumeMounts") or ()), mount],
    }
