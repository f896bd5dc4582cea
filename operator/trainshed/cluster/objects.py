"""Pods and Services out of bytes: only the fields that a decision may need are ever decoded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypedDict

import msgspec

from trainshed.api.dependent import Dependent, Resource
from trainshed.api.job import Document
from trainshed.api.pieces import EARLIEST, count, within
from trainshed.api.pod import RESULT, Container, Phase, Pod, Run, Service
from trainshed.api.status_schema import LARGEST, int32

from .anatomy import ContainerSpec, ContainerStatus, Ended, PodSpec, PodStatus, State

PHASES = {str(phase): phase for phase in Phase}
#: A number in a label or annotation has so many digits at the most; Python refuses to read very long ones.
DIGITS = 10
#: Characters that are kept of a reason, its first, and of a message, its last: kubelets write no longer ones.
REASON, MESSAGE = 128, 16_384
ATTEMPT = "trainshed.dev/attempt"
#: What is ours bears this label; the server sends us nothing else.
JOB_NAME = "training.kubeflow.org/job-name"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"


class Owner(msgspec.Struct, gc=False):
    """An owner reference."""

    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, gc=False, rename="camel"):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    @property
    def controller(self) -> str:
        """The uid of the controller that owns the object, or nothing."""
        return next((owner.uid for owner in self.owner_references or () if owner.controller), "")


class PodObject(msgspec.Struct, gc=False):
    """A pod as it comes over the wire."""

    metadata: Meta
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ServiceObject(msgspec.Struct, gc=False):
    """A Service as it comes over the wire."""

    metadata: Meta


class Stub(msgspec.Struct, gc=False):
    """Any object, of which only the metadata matter."""

    metadata: Meta


def pod(found: PodObject) -> Pod:
    """A pod in our words."""
    status, spec, meta = found.status or PodStatus(), found.spec or PodSpec(), found.metadata
    conditions = {condition.type: condition for condition in status.conditions or ()}
    scheduled, target = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    disruption = target if target and target.status == "True" else None
    return Pod(
        **_identity(meta),
        attempt=_number((meta.annotations or {}).get(ATTEMPT), 0),
        phase=PHASES.get(status.phase, Phase.UNKNOWN),
        ready="Ready" in conditions and conditions["Ready"].status == "True",
        node=spec.node_name or "",
        reason=_reason(status.reason),
        message=_message(status.message),
        disruption=(_reason(disruption.reason) or "Disrupted") if disruption else "",
        disrupted=within(disruption.last_transition_time) if disruption else None,
        unplaced=_reason(scheduled.reason) if scheduled and scheduled.status == "False" else "",
        unschedulable=_message(scheduled.message) if scheduled and scheduled.status == "False" else "",
        containers=(
            *_containers(status.init_container_statuses, spec.init_containers, init=True),
            *_containers(status.container_statuses, spec.containers, init=False),
        ),
        created=within(meta.creation_timestamp),
        leaves=within(meta.deletion_timestamp),
        grace=count(meta.deletion_grace_period_seconds),
        finalizers=tuple(finalizer for finalizer in meta.finalizers or () if finalizer != RESULT),
        held=RESULT in (meta.finalizers or ()),
    )


def service(found: ServiceObject) -> Service:
    """A Service in our words."""
    return Service(**_identity(found.metadata))


def dependent(resource: Resource, meta: Meta, document: Document) -> Dependent:
    """A dependent in our words."""
    return Dependent(
        resource=resource,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner=meta.controller,
        namespace=meta.namespace,
        job=(meta.labels or {}).get(JOB_NAME, ""),
        document=document,
        deleting=meta.deletion_timestamp is not None,
    )


def foreign(kind: str, there: Meta, wanted: Document) -> str:
    """Why the object that has the name of the one to be made is not ours, or nothing: its controller decides."""
    name, owners = wanted["metadata"]["name"], wanted["metadata"]["ownerReferences"]
    owner = next(reference["uid"] for reference in owners if reference.get("controller"))
    if there.controller == owner:
        return ""
    leaving = " It is being deleted." if there.deletion_timestamp else ""
    what = f"{kind} {name} exists already and belongs to somebody else.{leaving}"
    return f"{what} Rename it or the job, or delete it."


def unlabelled(kind: str, there: Meta) -> str:
    """Why no watch of ours tells of a pod or Service of ours any more, or nothing."""
    if kind not in ("pod", "service") or JOB_NAME in (there.labels or {}):
        return ""
    what = f"{kind} {there.name} is this job's, but its label {JOB_NAME} was taken off."
    return f"{what} Put it back, or delete the {kind}."


class Identity(TypedDict):
    """What pods and Services have in common."""

    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    role: str
    index: int
    deleting: bool


def _identity(meta: Meta) -> Identity:
    labels = meta.labels or {}
    return Identity(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner=meta.controller,
        namespace=meta.namespace,
        job=labels.get(JOB_NAME, ""),
        role=labels.get(REPLICA_TYPE, ""),
        index=_number(labels.get(REPLICA_INDEX), -1),
        deleting=meta.deletion_timestamp is not None,
    )


def _containers(
    found: list[ContainerStatus] | None, specs: list[ContainerSpec] | None, *, init: bool
) -> Iterator[Container]:
    """The containers in the order of the spec: the kubelet sorts their statuses by name."""
    order = {spec.name: number for number, spec in enumerate(specs or ())}
    sidecars = {spec.name for spec in specs or () if init and spec.restart_policy == "Always"}
    for status in sorted(found or (), key=lambda status: order.get(status.name, len(order))):
        yield _container(status, init=init, sidecar=status.name in sidecars)


def _container(found: ContainerStatus, *, init: bool, sidecar: bool) -> Container:
    state, last = found.state or State(), (found.last_state or State()).terminated
    ended, waiting = state.terminated, state.waiting
    told, lived = ended or waiting, ended or state.running
    return Container(
        name=found.name,
        init=init,
        sidecar=sidecar,
        image=found.image,
        restarts=count(found.restart_count),
        exit_code=_code(ended) if ended else None,
        reason=_reason(told.reason) if told else "",
        message=_message(told.message) if told else "",
        started=_started(lived.started_at) if lived else None,
        finished=within(ended.finished_at) if ended else None,
        waiting=waiting is not None,
        before=_run(last) if last else None,
    )


def _run(ended: Ended) -> Run:
    times = (_started(ended.started_at), within(ended.finished_at))
    return Run(_code(ended), *times, reason=_reason(ended.reason), message=_message(ended.message))


def _started(found: datetime | None) -> datetime | None:
    """When a container was started. Where that is not known, some runtimes say the first time that they have."""
    return (within(found) or EARLIEST) if found else None


def _code(ended: Ended) -> int:
    return int32(ended.exit_code)


def _reason(found: str | None) -> str:
    return found[:REASON] if found else ""


def _message(found: str | None) -> str:
    return found[-MESSAGE:] if found else ""


def _number(text: str | None, otherwise: int) -> int:
    """The number, if it is one that the format int32 has."""
    found = int(text) if text and text.isascii() and text.isdecimal() and len(text) <= DIGITS else otherwise
    return found if found <= LARGEST else otherwise
