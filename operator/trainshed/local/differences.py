"""What a run on this machine cannot honour: the fields that it ignores, and those without which a job means another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainshed.api.job import Document

from .cluster import CLAIM, CONFIG_MAP, SECRET
from .environment import GPU
from .volumes import SOURCES

#: Fields of pods and containers that have no effect, and why.
POD_FIELDS = {
    "activeDeadlineSeconds": "no deadline of its own for a pod",
    "affinity": "one machine",
    "dnsConfig": "no DNS",
    "dnsPolicy": "no DNS",
    "hostAliases": "no DNS",
    "hostIPC": "no namespaces of the host",
    "hostNetwork": "no namespaces of the host",
    "hostPID": "no namespaces of the host",
    "imagePullSecrets": "no image",
    "nodeName": "one machine",
    "nodeSelector": "one machine",
    "priorityClassName": "no scheduler",
    "runtimeClassName": "no container runtime",
    "schedulerName": "no scheduler",
    "securityContext": "replicas run as you",
    "serviceAccountName": "no API server",
    "tolerations": "one machine",
    "topologySpreadConstraints": "one machine",
}
CONTAINER_FIELDS = {
    "lifecycle": "no hooks",
    "livenessProbe": "no probes",
    "readinessProbe": "a replica is ready once it runs",
    "securityContext": "replicas run as you",
    "startupProbe": "no probes",
    "volumeDevices": "no block devices",
}
POLICY_FIELDS = {
    "managedBy": "this run manages the job",
    "schedulingPolicy": "no scheduler",
    "suspend": "the job runs at once",
    "ttlSecondsAfterFinished": "the run ends with the job",
}
MPI = "Forbidden: mpirun reaches its workers with kubectl exec or SSH, and neither is there: run the job in a cluster"
NO_COMMAND = "Required value: the image's own entry point does not run on this machine; set command"


def ignored(job: Document, pods: Iterable[Document]) -> list[str]:
    """Return what has no effect in a run of this job, each once."""
    found: dict[str, None] = {}
    policy = job["spec"].get("runPolicy") or {}
    for field, why in POLICY_FIELDS.items():
        if policy.get(field) not in (None, False):
            found[f"runPolicy.{field} ({why})"] = None
    for pod in pods:
        for item in _pod(pod["spec"]):
            found[item] = None
    return list(found)


def _pod(spec: Document) -> Iterator[str]:
    for field, why in POD_FIELDS.items():
        if spec.get(field):
            yield f"{field} ({why})"
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        yield f"image {container.get('image')} (replicas use this machine's Python)"
        for field, why in CONTAINER_FIELDS.items():
            if container.get(field):
                yield f"{field} ({why})"
        limits = {**((container.get("resources") or {}).get("limits") or {})}
        if limits.pop(GPU, None):
            yield f"limits of {GPU} beyond the GPUs of this machine"
        if limits:
            yield f"resource limits {', '.join(sorted(limits))}"


def refused(
    kind: str, pods: Iterable[Document], objects: Mapping[tuple[str, str], Document], *, runtime: str
) -> list[str]:
    """Return what makes a run on this machine impossible, each with what to do.

    `objects` are those of the file and those that the operator creates, by kind and name; `runtime` is the name of the
    runtime.
    """
    if kind == "MPIJob":
        return [f"kind: {MPI}"]
    found: dict[str, None] = {}
    for pod in pods:
        for problem in (*_commands(pod), *_volumes(pod, objects), *_unreachable(pod, runtime)):
            found[problem] = None
    return list(found)


def _containers(pod: Document) -> Iterator[tuple[str, Document]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod["spec"].get(field) or ()):
            yield f"pod {pod['metadata']['name']}: spec.{field}[{index}]", container


def _commands(pod: Document) -> Iterator[str]:
    for path, container in _containers(pod):
        if not container.get("command"):
            yield f"{path}.command: {NO_COMMAND}"


def _volumes(pod: Document, objects: Mapping[tuple[str, str], Document]) -> Iterator[str]:
    for index, volume in enumerate(pod["spec"].get("volumes") or ()):
        path = f"pod {pod['metadata']['name']}: spec.volumes[{index}]"
        kinds = [key for key in volume if key != "name"]
        if unknown := [key for key in kinds if key not in SOURCES]:
            yield f"{path}.{unknown[0]}: Forbidden: this machine cannot mount it; use a hostPath or a claim"
        for field, kind, name in (("configMap", CONFIG_MAP, "name"), ("secret", SECRET, "secretName")):
            wanted: Mapping[str, Any] = volume.get(field) or {}
            if wanted and not wanted.get("optional") and (kind, wanted.get(name)) not in objects:
                yield f"{path}.{field}: Not found: {kind} {wanted.get(name)}; add it to the file"


def missing_claims(pods: Iterable[Document], objects: Mapping[tuple[str, str], Document]) -> list[str]:
    """Return the claims that pods mount and the file does not have: empty folders stand for them."""
    claims = (
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    )
    return list(dict.fromkeys(name for name in claims if (CLAIM, name) not in objects))


def _unreachable(pod: Document, runtime: str) -> Iterator[str]:
    """Yield the mounts of plain processes at paths that do not exist and that no word or variable names."""
    if runtime != "processes":
        return
    for path, container in _containers(pod):
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        words += [str(entry.get("value") or "") for entry in container.get("env") or ()]
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            target = mount["mountPath"].rstrip("/")
            if not any(target in str(word) for word in words) and not Path(target).exists():
                yield (
                    f"{path}.volumeMounts[{index}].mountPath: Forbidden: processes cannot have {target};"
                    " name it in command, args or env, where it is replaced, or use --runtime namespaces"
                )
