"""The sentences about one replica: why it is not created, does not run, or does not terminate."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from trainshed.api import coerce, foreign_text
from trainshed.api.indexes import Indexes
from trainshed.api.job import Document, Replica
from trainshed.api.objects import Container, Pod, TerminatedState
from trainshed.api.status import MAX_SHORT_NAME_BYTES, Waiting

from .phrases import LINE, duration, last_line, plural, without_runtime_prefix

#: A kubelet alternates between these two reasons.
PULL_ERROR, PULL_BACKOFF = "ErrImagePull", "ImagePullBackOff"
#: How registries say that there is no such image, in messages of the kubelet.
ABSENT = (": not found", "manifest unknown")
#: The parts of a volume that name an object: its kind, and the field with its name. A sentence has MAX_VOLUMES at most.
VOLUME_SOURCES, MAX_VOLUMES = (
    {
        "configMap": ("ConfigMap", "name"),
        "secret": ("Secret", "secretName"),
        "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
    },
    3,
)
#: The maximum number of finalizers in a sentence.
MAX_FINALIZERS = 4
NO_SCHEDULER = "no scheduler has tried to place the pod: check its schedulerName, and that this scheduler runs"
NO_CONTAINERS = "the kubelet has not reported the containers"
NOTHING_STARTED = "no container has started"


def sentences(found: Iterable[Waiting]) -> list[str]:
    """Return which replicas have a problem, on which node, and the problem: once for all roles that have the same."""
    names: dict[tuple[str, str], list[str]] = {}
    for item in found:
        replicas = f"{item.role.lower()}{'-' if item.count == 1 else ' '}{item.indexes}"
        names.setdefault((item.node, item.message), []).append(replicas)
    return [
        f"{', '.join(replicas)}{f' on {node}' if node else ''}: {message}"
        for (node, message), replicas in names.items()
    ]


def withheld_until_ready(role: str) -> str:
    """Return when replicas are created that wait for another role."""
    return f"created {_until_ready(role)}"


def not_created_yet(withheld: Iterable[tuple[str, Indexes, str]]) -> str:
    """Return which replicas are not created yet, or "": those of each role, with the role that they wait for."""
    parts = [f"{_names(role, indexes)} {_until_ready(awaited)}" for role, indexes, awaited in withheld]
    return f"Not created yet: {'; '.join(parts)}." if parts else ""


def _until_ready(role: str) -> str:
    return f"once all {role} replicas are ready"


def _names(role: str, indexes: Indexes) -> str:
    """Return the name of one replica, or of several of a role: `worker-0-3`."""
    if len(indexes) == 1:
        return str(Replica(role, next(iter(indexes))))
    return f"{role.lower()}-{indexes.abridged(MAX_SHORT_NAME_BYTES)}"


def deleted_by_others(times: int, end: datetime) -> str:
    """Return why a replica is not created before `end`."""
    due = end.replace(microsecond=0) + timedelta(seconds=1 if end.microsecond else 0)
    return f"created again by {due:%Y-%m-%dT%H:%M:%SZ}: others have deleted the pod, or its annotations, {times} times"


def not_scheduled(pod: Pod) -> str:
    """Return the scheduler's own message, or else its reason."""
    return f"not scheduled: {pod.unschedulable or pod.unplaced}"


def not_admitted(queue: str) -> str:
    """Return that Kueue has not admitted the group of a pod."""
    return f"waits for Kueue's admission (queue {queue})"


def name_of(container: Container) -> str:
    """Return what the other sentences call a container."""
    return f"{'init container' if container.init else 'container'} {container.name}"


def still_running(container: Container) -> str:
    """Return that an init container has not ended."""
    return f"{name_of(container)} is still running"


def no_image(container: Container) -> str:
    """Return the problem with the image; the message for a back-off has details only after a prefix, if at all."""
    prefix, _, cause = container.message.rpartition(f"{PULL_ERROR}: ")
    details = cause if prefix or container.reason != PULL_BACKOFF else ""
    message = f"image {container.image or 'of ' + name_of(container)} cannot be pulled"
    return f"{message}: {details}" if details else message


def cannot_start(container: Container) -> str:
    """Return that a container cannot be started, with the cause if it is known."""
    message = f"{name_of(container)} cannot be started ({container.reason})"
    cause = without_runtime_prefix(container.message)
    return f"{message}: {cause}" if cause else message


def no_sandbox(container: Container, pod: Pod, template: Document) -> str:
    """Return why a container is not created although its image is of no matter."""
    hint = f"`kubectl describe pod {pod.name}` shows the Events"
    volume = f"a volume{_volumes(template)} is not mounted"
    return f"{name_of(container)} is not created: {volume}, or the pod sandbox is not ready; {hint}"


def not_created(container: Container) -> str:
    """Return that a container is not created, for no known reason."""
    return f"{name_of(container)} is not created yet; its image may still be being pulled"


def _volumes(template: Document) -> str:
    """Return the objects that the volumes of a template need, in brackets; "" if there are none."""
    found = [
        f"{kind} {coerce.truncate_end(foreign_text.one_line(name), MAX_SHORT_NAME_BYTES)}"
        for volume in coerce.as_sequence(coerce.as_mapping(template.get("spec")).get("volumes"))
        for part, (kind, field) in VOLUME_SOURCES.items()
        if isinstance(name := coerce.as_mapping(coerce.as_mapping(volume).get(part)).get(field), str)
    ]
    more = [f"{len(found) - MAX_VOLUMES} more"] if len(found) > MAX_VOLUMES else []
    return f" ({', '.join([*found[:MAX_VOLUMES], *more])})" if found else ""


def crash_loop(container: Container, last: TerminatedState) -> str:
    """Return how often a container was restarted, and how it ended the last time."""
    reason = "" if last.reason in ("Error", "") else f" ({last.reason})"
    restarted = f"was restarted {plural(container.restarts, 'time')} and last" if container.restarts else "has"
    message = f"{name_of(container)} {restarted} exited with code {last.exit_code}{reason}"
    line = last_line(foreign_text.lines(last.message))
    return f"{message}: {line}" if line else message


def did_not_start(replica: Replica, pod: Pod, seconds: int, why: str) -> str:
    """Return that a replica has not started running within its start-up deadline, and its problem."""
    where, cause = f" on {pod.node}" if pod.node else "", coerce.truncate_end(foreign_text.one_line(why), LINE)
    return f"{replica}{where} did not start running within {duration(seconds)} of pod creation: {cause}"


def still_terminating(pod: Pod, others: int, force_deletion: datetime | None, annotation: str) -> str:
    """Return that a pod, and so many others, do not terminate, why, and what can be done about it.

    The pod is deleted by force at `force_deletion`, if `annotation` asks for that.
    """
    where = f" on node {pod.node}" if pod.node else ""
    more = f" ({others} more {'pod is' if others == 1 else 'pods are'} stuck)" if others else ""
    since = f"its grace period ended at {_time(pod.deletion_timestamp)}"
    return f"Pod {pod.name}{where} is still terminating; {since}{more}: {_obstacle(pod, force_deletion, annotation)}"


def _obstacle(pod: Pod, force_deletion: datetime | None, annotation: str) -> str:
    if pod.finalizers:
        more = " ..." if len(pod.finalizers) > MAX_FINALIZERS else ""
        return f"waiting for these finalizers to be removed: {', '.join(pod.finalizers[:MAX_FINALIZERS])}{more}"
    if force_deletion:
        at = _time(force_deletion)
        return f"the kubelet has not confirmed its deletion; the operator force-deletes it at {at}"
    return (
        "the kubelet has not confirmed its deletion. The replica is not replaced until the pod is gone: delete the "
        "node, taint it with node.kubernetes.io/out-of-service, force-delete the pod (--grace-period=0 --force) if it "
        f"is certainly not running, or set {annotation}"
    )


def _time(time: datetime | None) -> str:
    return coerce.format_time(time) if time else ""
