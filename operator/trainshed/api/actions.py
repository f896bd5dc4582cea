"""The input of the planner (Snapshot) and its output (Plan): a status, Events, actions, the next reconcile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from .framework import Framework, JobDefaults
from .job import Document, Job
from .objects import Dependent, NodeReport, Pod, Resource, Service
from .signs import Signs
from .status import Status
from .trainer_status import TrainerStatus


class ApiRefusal(msgspec.Struct, frozen=True):
    """The API server's last refusal: a reason in CamelCase and its message.

    `hidden` are pods of the job that exist but that no watch reports, because they lack the label that it selects.
    """

    reason: str
    message: str
    hidden: tuple[Pod, ...] = ()


class SchedulerMessage(msgspec.Struct, frozen=True):
    """The message of the scheduler's last Event about the PodGroup, "" for none, and when the Events were `read`."""

    text: str
    read: datetime


class LostPod(msgspec.Struct, frozen=True):
    """The name of pods that were deleted, not by the operator, before they ended: how many in a row, and when last."""

    name: str
    count: int
    time: datetime


class ScaleDown(msgspec.Struct, frozen=True):
    """A change of the spec that has made pods or Services of a job needless: how many in a row, and when the last was.

    `changed` is when the spec was last seen to have changed, since then or by it.
    """

    count: int
    time: datetime
    changed: datetime


class Snapshot(msgspec.Struct, frozen=True):
    """A job, its stored status, and the objects whose controller's uid is the job's.

    `unserved` are the kinds of PodGroup that the API server does not serve. `scheduler_message` is None until the
    Events about the PodGroup are read. `lost_pods` is what this process has seen, of the last minutes. `in_parts` is
    whether a plan creates a part of many pods and Services, and the next one more. `unwatched` are pods that have left
    the watch while nothing showed that they are gone, as they last were; `counted_here` is whether this process has
    stored the status, so that it knows all pods of its counts that have left the watch since. `answers` are the
    dependents with digests as the API server had them after this process wrote them last, by uid. `scale_down` is the
    last one that this process has carried out, None if it was long ago. `training` is the last report of the training
    that this process has got, and `signs` say whether it advances. `authorities` are the CAs of the endpoint to which
    pods report, in PEM. `node_reports` are the nodes that have been read for this plan.
    """

    job: Job
    framework: Framework
    job_defaults: JobDefaults
    status: Status
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]
    now: datetime
    refusal: ApiRefusal | None = None
    dependents: tuple[Dependent, ...] = ()
    unserved: tuple[Resource, ...] = ()
    scheduler_message: SchedulerMessage | None = None
    lost_pods: tuple[LostPod, ...] = ()
    in_parts: bool = True
    unwatched: tuple[Pod, ...] = ()
    counted_here: bool = True
    answers: Mapping[str, Document] = {}
    scale_down: ScaleDown | None = None
    training: TrainerStatus | None = None
    authorities: str = ""
    signs: Signs = Signs()
    node_reports: Mapping[str, NodeReport] = {}


def all_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods, and those that no watch reports; one whose name another pod has by now is gone."""
    if snapshot.refusal is None or not snapshot.refusal.hidden:
        return snapshot.pods
    names = {pod.name for pod in snapshot.pods}
    return (*snapshot.pods, *(pod for pod in snapshot.refusal.hidden if pod.name not in names))


class CreatePod(msgspec.Struct, frozen=True):
    """Create this pod; if the job already owns a pod of that name, the action succeeds.

    `owner` is the uid of the job, `attempt` that of the replica. `build` returns the body, which is built when it is
    sent: while the requests of a plan wait, many bodies of a large template would fill the memory.
    """

    name: str
    owner: str
    build: Callable[[], Document]
    attempt: int = 0

    @property
    def body(self) -> Document:
        """The body, built now."""
        return self.build()


class CreateService(msgspec.Struct, frozen=True):
    """Create this Service; if the job already owns a Service of that name, the action succeeds."""

    name: str
    body: Document


class CreateSshSecret(msgspec.Struct, frozen=True):
    """Create this Secret with new ssh keys.

    If it exists already, the action succeeds: the name contains the job's uid, so it is not another job's.
    """

    name: str
    body: Document


class CreateDependent(msgspec.Struct, frozen=True):
    """Create this dependent; if the job already owns one of that name, or with `shared` if any exists, it succeeds."""

    resource: Resource
    name: str
    body: Document
    shared: bool = False


class PodState(msgspec.Struct, frozen=True):
    """What an update owes to the state of pods: `entered` are those that its object gives rights to.

    `basis` stands for all else that it depends on; `complete` is whether it is as with all pods of the job.
    """

    basis: str
    entered: frozenset[str]
    complete: bool


class UpdateDependent(msgspec.Struct, frozen=True):
    """Apply the merge patch `patch`, whose `metadata.uid` and `.resourceVersion` are preconditions.

    `digest` stands for the desired content. An update with `pods` may wait until more of their states have changed.
    """

    resource: Resource
    name: str
    patch: Document
    digest: str = ""
    pods: PodState | None = None


class DeleteDependent(msgspec.Struct, frozen=True):
    """Delete the dependent with this name, with its uid as precondition."""

    resource: Resource
    name: str
    uid: str


class DeletePod(msgspec.Struct, frozen=True):
    """Delete the pod with this name, with its uid as precondition.

    `grace` is in seconds; None means the pod's own grace period. `version` is a second precondition, on the
    resourceVersion. It is set where the decision to delete depends on the pod's state.
    """

    name: str
    uid: str
    grace: int | None = None
    version: str = ""


class ReleasePod(msgspec.Struct, frozen=True):
    """Remove Trainshed's finalizer from the pod, with uid and resourceVersion as preconditions.

    `finalizers` are the others, which stay.
    """

    name: str
    uid: str
    version: str
    finalizers: tuple[str, ...]


class DeleteService(msgspec.Struct, frozen=True):
    """Delete the Service with this name, with its uid as precondition."""

    name: str
    uid: str


class DeleteJob(msgspec.Struct, frozen=True):
    """Delete the job and, by garbage collection, its children; uid and resourceVersion are preconditions."""

    uid: str
    version: str


Action = (
    CreatePod
    | CreateService
    | CreateSshSecret
    | CreateDependent
    | UpdateDependent
    | DeletePod
    | ReleasePod
    | DeleteService
    | DeleteDependent
    | DeleteJob
)


class EventType(StrEnum):
    """The type of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Event(msgspec.Struct, frozen=True):
    """A Kubernetes Event on the job, recorded after the status that belongs to it is stored.

    A `key` marks a lasting state: the planner may return the Event at every reconcile, and the Event is recorded once.
    """

    type: EventType
    reason: str
    message: str
    key: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The result of one reconcile: store `status`, record `events`, carry out `actions`, in this order.

    The job must be reconciled again at `requeue_at` at the latest; None means only after a change.

    `pods_to_verify` are the names of pods that must be read from the API server before the plan is used, because they
    may still exist. `events_to_read` is the uid of the PodGroup whose Events must be read; "" for none. `nodes_to_read`
    are those on which replicas failed and of which the plan needs a report. `rule` names the rule that decided.
    """

    status: Status
    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()
    requeue_at: datetime | None = None
    pods_to_verify: tuple[str, ...] = ()
    events_to_read: str = ""
    nodes_to_read: tuple[str, ...] = ()
    rule: str = ""
