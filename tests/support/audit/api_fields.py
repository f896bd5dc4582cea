"""Accessors for the fields of API objects, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from support.jobs import KINDS

from .change import Object

#: The kinds of jobs by the plural of their resource, and the fields of their replica specs.
JOBS = {f"{kind.lower()}s": known.field for kind, known in KINDS.items()}
ROLE, INDEX = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
JOB = "training.kubeflow.org/job-name"
ATTEMPT, SCOPE = "trainshed.dev/restart-attempt", "trainshed.dev/restart-scope"
#: Part of every finalizer of the operator.
OPERATOR_DOMAIN = "trainshed"
OVER = ("Succeeded", "Failed")
#: The conditions that announce them in a job of a queue, while its pods hold resources.
ENDING = ("SuccessCriteriaMet", "FailureTarget")
#: The prefix of the labels and annotations of jobs of a queue.
QUEUE = "kueue.x-k8s.io/"
#: Messages of jobs that a limit has failed: two of v1's sentences, and one of the operator's.
LIMITS = ("longer than specified deadline", "reached the specified backoff limit", "did not start running within")
#: The name of a ConfigMap with decisions about a job begins so, and has the job's uid.
RING = "trainshed-decisions-"
#: Kinds that objects other than jobs may own, or that have no owner: no promise covers them.
EXEMPT = ("leases", "events", "nodes", "namespaces", "resourcequotas")


def meta(found: Object) -> dict[str, Any]:
    return found.get("metadata") or {}


def uid(found: Object) -> str:
    return str(meta(found).get("uid", ""))


def title(plural: str, found: Object) -> str:
    return f"{plural} {meta(found).get('namespace', '')}/{meta(found).get('name', '')}"


def held(found: Object) -> bool:
    """Return whether it has a finalizer of the operator."""
    return any(OPERATOR_DOMAIN in one for one in meta(found).get("finalizers") or ())


def owner(found: Object) -> str:
    """Return the uid of the job that controls it, or ""."""
    references = meta(found).get("ownerReferences") or ()
    owners = (one for one in references if one.get("controller") and one.get("kind") in KINDS)
    return str(next((one.get("uid", "") for one in owners), ""))


def recorded(found: Object) -> str:
    """Return the uid of the job about which it records decisions, or "": the job owns it, and does not control it."""
    owners = [str(one.get("uid")) for one in meta(found).get("ownerReferences") or ()]
    name = str(meta(found).get("name"))
    return owners[0] if len(owners) == 1 and name == f"{RING}{owners[0]}" else ""


def conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions of a status, and those that are stored beside them because v1 does not have them."""
    found = list(status.get("conditions") or ())
    if blocked := status.get("blocked"):
        found.append({"type": "Blocked", "status": "True", **blocked})
    if ending := status.get("ending"):
        found.append({"status": "True", **ending})
    return found


def condition(found: Object, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions(status(found)))


def queued(job: Object) -> bool:
    """Return whether it is a job of a queue, by its labels and annotations."""
    return any(key.startswith(QUEUE) for part in ("labels", "annotations") for key in meta(job).get(part) or ())


def failed_at(job: Object) -> float:
    """Return when a job has failed, 0 if it has not."""
    found = (one for one in conditions(status(job)) if one.get("type") == "Failed" and one.get("status") == "True")
    return next((seconds(one["lastTransitionTime"]) for one in found if one.get("lastTransitionTime")), 0.0)


def end_decided(job: Object) -> float:
    """Return when the end of a job of a queue was announced, 0 if it is not ending."""
    found = status(job).get("ending")
    return seconds(found["lastTransitionTime"]) if found else 0.0


def limited(found: Object) -> bool:
    """Return whether a limit failed the job, by its message: then its pods are stopped under any cleanPodPolicy."""
    message = (
        (one.get("message") or "") for one in status(found).get("conditions") or () if one.get("type") == "Failed"
    )
    return any(limit in message for message in message for limit in LIMITS)


def replicas(plural: str, job: Object) -> dict[str, dict[str, Any]]:
    """Return the replica specs of a job by role, in lower case."""
    found = (job.get("spec") or {}).get(JOBS[plural]) or {}
    return {role.lower(): spec or {} for role, spec in found.items()}


def counts(plural: str, job: Object) -> dict[str, int]:
    """Return the number of replicas of each role, in lower case."""
    found = replicas(plural, job)
    return {role: 1 if spec.get("replicas") is None else int(spec["replicas"]) for role, spec in found.items()}


def policy(job: Object) -> dict[str, Any]:
    return (job.get("spec") or {}).get("runPolicy") or {}


def clean_pod_policy(job: Object) -> str:
    """Return the cleanPodPolicy, which an MPIJob may also have outside of the run policy."""
    return policy(job).get("cleanPodPolicy") or (job.get("spec") or {}).get("cleanPodPolicy") or "None"


def status(found: Object) -> dict[str, Any]:
    return found.get("status") or {}


def replica_of(found: Object) -> tuple[str, int] | None:
    """Return role (in lower case) and index from the name of a child, or None; a launcher has index 0."""
    job = next((one.get("name", "") for one in meta(found).get("ownerReferences") or () if one.get("controller")), None)
    name = str(meta(found).get("name", ""))
    role, _, index = name.removeprefix(f"{job}-").rpartition("-")
    if job is None or not name.startswith(f"{job}-"):
        return None
    if index == "launcher" and not role:
        return index, 0
    return (role, int(index)) if role and index.isdecimal() else None


def recognizable(found: Object) -> bool:
    """Return whether it has an owner and the labels that identify it."""
    labels = meta(found).get("labels") or {}
    return JOB in labels and bool(owner(found))


def attempt(pod: Object) -> int:
    return int((meta(pod).get("annotations") or {}).get(ATTEMPT, 0))


def phase(pod: Object) -> str:
    return str(status(pod).get("phase", "Pending"))


def containers(pod: Object) -> Iterator[dict[str, Any]]:
    """Yield the statuses of a pod's containers, those of init containers first."""
    yield from status(pod).get("initContainerStatuses") or ()
    yield from status(pod).get("containerStatuses") or ()


def is_ready(pod: Object) -> bool:
    """Return whether all containers of a pod are ready, apart from init containers."""
    return all(container.get("ready", False) for container in status(pod).get("containerStatuses") or ())


def exit_codes(pod: Object) -> tuple[int, ...]:
    """Return the exit codes of its containers other than 0."""
    ends = ((one.get("state") or {}).get("terminated") or {} for one in containers(pod))
    return tuple(int(end["exitCode"]) for end in ends if end.get("exitCode"))


def restarts(pod: Object) -> int:
    """Return how often the kubelet has restarted its containers in place."""
    return sum(int(one.get("restartCount", 0)) for one in containers(pod))


def seconds(time: str) -> float:
    """Return an RFC 3339 time as seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()


def indexes(message: str) -> set[int]:
    """Return the numbers in a text such as `0,2-4`; other text is ignored."""
    found: set[int] = set()
    for piece in message.split(","):
        first, _, last = piece.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return found
