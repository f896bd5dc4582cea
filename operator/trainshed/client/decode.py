"""Decodes pods, Services and metadata from JSON into the types of trainshed.api.

What others have written is made one printable line; a termination message keeps its lines.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TypedDict

import msgspec

from trainshed.api.coerce import EARLIEST, LARGEST, int32, parse_count, within_time_range
from trainshed.api.foreign_text import lines, one_line
from trainshed.api.job import Document
from trainshed.api.objects import (
    JOB_TRACKING_FINALIZER,
    Container,
    Dependent,
    Phase,
    Pod,
    Resource,
    Service,
    TerminatedState,
)

from .metadata import NO_ANNOTATIONS, NO_LABELS, ObjectMeta


class ContainerStateTerminated(msgspec.Struct, gc=False, rename="camel"):
    """The terminated state of a container."""

    exit_code: int = 0
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerStateRunning(msgspec.Struct, gc=False, rename="camel"):
    """The running state of a container."""

    started_at: datetime | None = None


class ContainerStateWaiting(msgspec.Struct, gc=False):
    """The waiting state of a container."""

    reason: str | None = None
    message: str | None = None


class ContainerState(msgspec.Struct, gc=False):
    """The state of a container: one of the fields is set."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    """The status of a container."""

    name: str = ""
    image: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodCondition(msgspec.Struct, gc=False, rename="camel"):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")


class DeclaredContainer(msgspec.Struct, gc=False, rename="camel"):
    """The name and restart policy of a container; an init container with policy Always is a sidecar (KEP-753)."""

    name: str = ""
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """The node of a pod, and its containers in order."""

    node_name: str | None = None
    containers: list[DeclaredContainer] | None = None
    init_containers: list[DeclaredContainer] | None = None


PHASES = {str(phase): phase for phase in Phase}
#: Maximum digits of a number in a label or annotation: Python refuses to parse very long numbers.
DIGITS = 10
#: Characters that are kept: the first of a reason, the last of a message. Kubelets write no longer ones.
MAX_REASON_LENGTH, MAX_MESSAGE_LENGTH = 128, 16_384
#: Characters that are kept of a name: those of Kubernetes are shorter, and an image reference seldom is longer.
MAX_NAME_LENGTH = 256
#: Finalizers of others that are kept. A pod with more cannot be released: a patch replaces the whole list.
MAX_FINALIZERS = 64
#: Names that are kept once for all pods: those of ten thousand jobs, at most 32 MiB if all are as long as possible.
SHARED_NAMES = 32_768
#: Container statuses that are kept. Jobs have at most 32 containers in a pod; webhooks add a few.
MAX_CONTAINERS = 256


class PodObject(msgspec.Struct, gc=False):
    """A pod, as the API server sends it."""

    metadata: ObjectMeta
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ServiceObject(msgspec.Struct, gc=False):
    """A Service, as the API server sends it."""

    metadata: ObjectMeta


NO_STATUS, NO_SPEC = PodStatus(), PodSpec()


def pod(found: PodObject) -> Pod:
    """Convert a pod."""
    status, spec, meta = found.status or NO_STATUS, found.spec or NO_SPEC, found.metadata
    annotations, finalizers = meta.annotations or NO_ANNOTATIONS, meta.finalizers or ()
    controller = meta.controller_reference
    others = [finalizer for finalizer in finalizers if finalizer != JOB_TRACKING_FINALIZER]
    conditions = {condition.type: condition for condition in status.conditions or ()}
    scheduled, target = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    disruption = target if target and target.status == "True" else None
    placed = scheduled if scheduled and scheduled.status == "True" else None
    condition = conditions.get("Ready")
    ready = condition if condition and condition.status == "True" else None
    sandbox = conditions.get("PodReadyToStartContainers")
    return Pod(
        **_identity(meta),
        attempt=_number(annotations.attempt, 0),
        phase=PHASES.get(status.phase, Phase.UNKNOWN),
        ready=ready is not None,
        node=_shared(spec.node_name or ""),
        reason=_reason(status.reason),
        message=_line(status.message),
        disruption=(_reason(disruption.reason) or "Disrupted") if disruption else "",
        disrupted=within_time_range(disruption.last_transition_time) if disruption else None,
        unplaced=_reason(scheduled.reason) if scheduled and scheduled.status == "False" else "",
        unschedulable=_line(scheduled.message) if scheduled and scheduled.status == "False" else "",
        containers=_containers(status.init_container_statuses, spec.init_containers, init=True)
        + _containers(status.container_statuses, spec.containers, init=False),
        created=within_time_range(meta.creation_timestamp),
        deletion_timestamp=within_time_range(meta.deletion_timestamp),
        grace=parse_count(meta.deletion_grace_period_seconds),
        finalizers=tuple(map(_shared, others[:MAX_FINALIZERS])),
        has_finalizer=len(others) < len(finalizers) and len(others) <= MAX_FINALIZERS,
        scheduled=within_time_range(placed.last_transition_time) if placed else None,
        sandbox_ready=sandbox.status == "True" if sandbox else None,
        became_ready=within_time_range(ready.last_transition_time) if ready else None,
        template_hash=_name(annotations.template_hash),
        service=_name(annotations.service),
        group_size=_number(annotations.group_size, 0),
        owner_kind=_name(controller.kind),
        owner_name=_name(controller.name),
        ip=_name(status.pod_ip),
        debugged=any(one.state and one.state.running for one in status.ephemeral_container_statuses or ()),
    )


def service(found: ServiceObject) -> Service:
    """Convert a Service."""
    return Service(**_identity(found.metadata))


def dependent(resource: Resource, meta: ObjectMeta, document: Document) -> Dependent:
    """Convert a dependent."""
    return Dependent(
        resource=resource,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner=meta.controller,
        namespace=meta.namespace,
        job=(meta.labels or NO_LABELS).job or "",
        document=document,
        deleting=meta.deletion_timestamp is not None,
    )


class Identity(TypedDict):
    """The fields that pods and Services have in common."""

    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    role: str
    index: int
    deleting: bool


def _identity(meta: ObjectMeta) -> Identity:
    labels = meta.labels or NO_LABELS
    return Identity(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner=_name(meta.controller),
        namespace=_shared(meta.namespace),
        job=_shared(labels.job or ""),
        role=_shared(labels.role or ""),
        index=_number(labels.index, -1),
        deleting=meta.deletion_timestamp is not None,
    )


def _containers(
    found: list[ContainerStatus] | None, specs: list[DeclaredContainer] | None, *, init: bool
) -> tuple[Container, ...]:
    """Return the containers in the order of the spec: the kubelet sorts their statuses by name."""
    if not found:
        return ()
    found = found[:MAX_CONTAINERS]
    order = {spec.name: number for number, spec in enumerate(specs or ())}
    sidecars = {spec.name for spec in specs or () if init and spec.restart_policy == "Always"}
    ordered = sorted(found, key=lambda status: order.get(status.name, len(order))) if len(found) > 1 else found
    return tuple([_container(status, init=init, sidecar=status.name in sidecars) for status in ordered])


def _container(found: ContainerStatus, *, init: bool, sidecar: bool) -> Container:
    state, last = found.state or ContainerState(), (found.last_state or ContainerState()).terminated
    ended, waiting = state.terminated, state.waiting
    explained, begun = ended or waiting, ended or state.running
    return Container(
        name=_shared(found.name),
        init=init,
        sidecar=sidecar,
        ready=found.ready,
        image=_name(found.image),
        restarts=parse_count(found.restart_count),
        exit_code=_code(ended) if ended else None,
        reason=_reason(explained.reason) if explained else "",
        message=(_lines(ended.message) if ended else _line(explained.message)) if explained else "",
        started=_started(begun.started_at) if begun else None,
        finished=within_time_range(ended.finished_at) if ended else None,
        waiting=waiting is not None,
        before=_terminated(last) if last else None,
    )


def _terminated(ended: ContainerStateTerminated) -> TerminatedState:
    times = (_started(ended.started_at), within_time_range(ended.finished_at))
    return TerminatedState(_code(ended), *times, reason=_reason(ended.reason), message=_lines(ended.message))


def _started(found: datetime | None) -> datetime | None:
    """Return the start time of a container; some runtimes report their zero time if it is unknown."""
    return (within_time_range(found) or EARLIEST) if found else None


def _code(ended: ContainerStateTerminated) -> int:
    return int32(ended.exit_code)


def _name(found: str | None) -> str:
    """Return the beginning of a name that the API server lets be of any length."""
    return _shared(found[:MAX_NAME_LENGTH]) if found else ""


@lru_cache(maxsize=SHARED_NAMES)
def _shared(name: str) -> str:
    """Return a name, which pods share: names would take a third of the memory of a pod."""
    return one_line(name)


def _reason(found: str | None) -> str:
    return one_line(found[:MAX_REASON_LENGTH]) if found else ""


def _line(found: str | None) -> str:
    return one_line(found[-MAX_MESSAGE_LENGTH:]) if found else ""


def _lines(found: str | None) -> str:
    return lines(found[-MAX_MESSAGE_LENGTH:]) if found else ""


def _number(text: str | None, otherwise: int) -> int:
    """Parse a number that is within int32, else return `otherwise`."""
    found = int(text) if text and text.isascii() and text.isdecimal() and len(text) <= DIGITS else otherwise
    return found if found <= LARGEST else otherwise
