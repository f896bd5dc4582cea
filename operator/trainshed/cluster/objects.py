"""Pods and Services out of bytes: only the fields that a decision may need are ever decoded."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

import msgspec

from trainshed.api.dependent import Dependent, Resource
from trainshed.api.job import Document
from trainshed.api.pod import Container, Phase, Pod, Service

PHASES = {str(phase): phase for phase in Phase}
#: A number in a label or annotation has so many digits at the most; Python refuses to read very long ones.
DIGITS = 9
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
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    @property
    def controller(self) -> str:
        """The uid of the controller that owns the object, or nothing."""
        return next((owner.uid for owner in self.owner_references or () if owner.controller), "")


class Ended(msgspec.Struct, gc=False, rename="camel"):
    """How a container has ended."""

    exit_code: int = 0
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Running(msgspec.Struct, gc=False, rename="camel"):
    """Since when a container runs."""

    started_at: datetime | None = None


class Waiting(msgspec.Struct, gc=False):
    """Why a container does not run yet."""

    reason: str | None = None
    message: str | None = None


class State(msgspec.Struct, gc=False):
    """The state of a container."""

    running: Running | None = None
    terminated: Ended | None = None
    waiting: Waiting | None = None


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    """The status of a container."""

    name: str = ""
    restart_count: int = 0
    state: State | None = None


class PodCondition(msgspec.Struct, gc=False):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """Where a pod is."""

    node_name: str | None = None


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
    status = found.status or PodStatus()
    conditions = {condition.type: condition for condition in status.conditions or ()}
    disruption, scheduled = conditions.get("DisruptionTarget"), conditions.get("PodScheduled")
    return Pod(
        **_identity(found.metadata),
        attempt=_number((found.metadata.annotations or {}).get(ATTEMPT), 0),
        phase=PHASES.get(status.phase, Phase.UNKNOWN),
        ready="Ready" in conditions and conditions["Ready"].status == "True",
        node=(found.spec.node_name if found.spec else None) or "",
        reason=status.reason or "",
        message=status.message or "",
        disruption=(disruption.reason or "Disrupted") if disruption and disruption.status == "True" else "",
        unplaced=(scheduled.reason or "") if scheduled and scheduled.status == "False" else "",
        unschedulable=(scheduled.message or "") if scheduled and scheduled.status == "False" else "",
        containers=(
            *(_container(item, init=True) for item in status.init_container_statuses or ()),
            *(_container(item, init=False) for item in status.container_statuses or ()),
        ),
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


def _container(found: ContainerStatus, *, init: bool) -> Container:
    state = found.state or State()
    ended, waiting = state.terminated, state.waiting
    told, lived = ended or waiting, ended or state.running
    return Container(
        name=found.name,
        init=init,
        restarts=found.restart_count,
        exit_code=ended.exit_code if ended else None,
        reason=(told.reason or "") if told else "",
        message=(told.message or "") if told else "",
        started=lived.started_at if lived else None,
        finished=ended.finished_at if ended else None,
        waiting=waiting is not None,
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) <= DIGITS else otherwise
