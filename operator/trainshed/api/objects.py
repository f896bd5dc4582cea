"""Pods, Services and the other objects that a job owns, and reports of nodes, as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

#: The finalizer that keeps a pod until its result is in the status of its job.
JOB_TRACKING_FINALIZER = "trainshed.dev/job-tracking"


class Phase(StrEnum):
    """A pod's phase, as Kubernetes names it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class TerminatedState(msgspec.Struct, frozen=True):
    """A terminated run of a container. Some runtimes give 1970 as the start of one that never did: see `start_of`."""

    exit_code: int
    started: datetime | None = None
    finished: datetime | None = None
    reason: str = ""
    message: str = ""


class Container(msgspec.Struct, frozen=True):
    """The status of one container; `exit_code` is None until it terminates.

    A `sidecar` is an init container with restartPolicy Always. `before` is its last terminated run before this one, if
    there was one.
    """

    name: str
    init: bool = False
    sidecar: bool = False
    ready: bool = False
    image: str = ""
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    waiting: bool = False
    before: TerminatedState | None = None


def start_of(run: Container | TerminatedState) -> datetime | None:
    """Return when a container, or its run before, started; None if it did not, or if that is not known."""
    return run.started if run.started and run.started.timestamp() > 0 else None


def _has_only_run(container: Container) -> bool:
    ended = container.exit_code is not None or container.before is not None
    return not (ended or container.waiting or container.restarts or container.init)


class Pod(msgspec.Struct, frozen=True):
    """A pod of a job; `job` and `role` are its labels, the latter in lower case.

    `disruption` is the reason of the condition DisruptionTarget and `disrupted` the time of its transition. `unplaced`
    and `unschedulable` are reason and message of the condition PodScheduled while it is false; `scheduled` is the time
    at which it became true. `sandbox_ready` is the condition PodReadyToStartContainers (volumes are mounted, the
    network is ready), None if the kubelet does not report it. `deletion_timestamp` includes the grace period `grace`
    (in seconds). `became_ready` is the time at which a `ready` pod last turned so. `finalizers` are those of others;
    `has_finalizer` is true if the pod has Trainshed's. `template_hash` is "" for a pod of training-operator v1.
    `service` is the name of the job's one Service that the pod's name resolves by, "" for a pod with a Service of its
    own. `owner_kind` and `owner_name` are the kind and the name of the job that controls it. In a `debugged` pod an
    ephemeral container runs. `group_size` is the number of pods of its group of Kueue, 0 outside of one. A `quiet` pod
    runs, and its containers have done nothing else so far: this is computed from the others.
    """

    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    role: str
    index: int
    attempt: int
    phase: Phase
    deleting: bool = False
    ready: bool = False
    node: str = ""
    reason: str = ""
    message: str = ""
    disruption: str = ""
    disrupted: datetime | None = None
    unplaced: str = ""
    unschedulable: str = ""
    containers: tuple[Container, ...] = ()
    created: datetime | None = None
    deletion_timestamp: datetime | None = None
    grace: int = 0
    finalizers: tuple[str, ...] = ()
    has_finalizer: bool = False
    scheduled: datetime | None = None
    sandbox_ready: bool | None = None
    template_hash: str = ""
    service: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    ip: str = ""
    debugged: bool = False
    became_ready: datetime | None = None
    group_size: int = 0
    quiet: bool = False

    def __post_init__(self) -> None:
        """Compute `quiet` once: most pods of a large job are quiet at every reconcile."""
        msgspec.structs.force_setattr(self, "quiet", self.phase is Phase.RUNNING and self._runs_untroubled())

    def _runs_untroubled(self) -> bool:
        troubled = self.deleting or self.reason or self.disruption or self.unplaced or self.unschedulable
        return not troubled and all(map(_has_only_run, self.containers))

    @property
    def over(self) -> bool:
        """True if all containers have terminated and will not be restarted."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def holds_resources(self) -> bool:
        """True if the pod has not ended; one without a node only if a scheduler may still give it one."""
        return not self.over and (self.phase is not Phase.PENDING or bool(self.node) or not self.deleting)

    def is_in_state_of(self, other: Pod) -> bool:
        """Return whether both are in the same state, which users cannot change: their kubelet does, or a deletion."""
        return self._state() == other._state()

    def _state(self) -> tuple[object, ...]:
        return self.deleting, self.phase, *[container.exit_code for container in self.containers]

    @property
    def deletion_requested(self) -> datetime | None:
        """The time at which deletion was requested, or None if it was not.

        It is computed from the deletionTimestamp and the grace period. An eviction sets the condition DisruptionTarget
        first; its time stays valid when the kubelet's final delete sets the grace period to 0.
        """
        if self.deletion_timestamp is None:
            return None
        requested = self.deletion_timestamp - timedelta(seconds=self.grace)
        return min(requested, self.disrupted) if self.disrupted else requested


class Service(msgspec.Struct, frozen=True):
    """A Service of a job; `job`, `role` and `index` are its labels: those of the pod whose name it carries."""

    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    role: str
    index: int
    deleting: bool = False


class Resource(msgspec.Struct, frozen=True):
    """A kind of dependent and its path on the API server.

    A `temporary` one exists only while the job may have pods; the others exist as long as the job.
    """

    prefix: str
    plural: str
    kind: str
    temporary: bool = False

    @property
    def api_version(self) -> str:
        """The value of `apiVersion`."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


#: The kind in which all gang schedulers group pods; each has its own API group.
POD_GROUP = "PodGroup"

CONFIG_MAPS = Resource("/api/v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts", "ServiceAccount")
ROLES = Resource("/apis/rbac.authorization.k8s.io/v1", "roles", "Role")
ROLE_BINDINGS = Resource("/apis/rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
AUTOSCALERS = Resource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", temporary=True)
VOLCANO_GROUPS = Resource("/apis/scheduling.volcano.sh/v1beta1", "podgroups", POD_GROUP, temporary=True)
#: Kubernetes' own: of 1.37 and newer, and of 1.36.
KUBERNETES_GROUPS = Resource("/apis/scheduling.k8s.io/v1beta1", "podgroups", POD_GROUP, temporary=True)
KUBERNETES_GROUPS_ALPHA = Resource("/apis/scheduling.k8s.io/v1alpha2", "podgroups", POD_GROUP, temporary=True)
COSCHEDULING_GROUPS = Resource("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", POD_GROUP, temporary=True)


class DesiredDependent(msgspec.Struct, frozen=True):
    """The desired state of a dependent; `content` are its top-level fields besides the metadata.

    With `shared` an object of that name that the job does not own is accepted too. With `first_spec`, only its creation
    sets these fields of the spec besides `content`, and an update removes no field: they cannot be changed.
    """

    resource: Resource
    name: str
    content: Mapping[str, Any]
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    shared: bool = False
    first_spec: Mapping[str, Any] | None = None


class Dependent(msgspec.Struct, frozen=True):
    """The observed state of a dependent; `job` is its label, `owner` the uid of its controller."""

    resource: Resource
    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    document: Mapping[str, Any]
    deleting: bool = False


#: An annotation: a digest of the content written last, so that fields that are no longer desired are noticed, too.
LAST_APPLIED_HASH = "trainshed.dev/last-applied-hash"


OPERATOR_NAME_LABEL = "training.kubeflow.org/operator-name"


JOB_NAME_LABEL = "training.kubeflow.org/job-name"


REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"


REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"


JOB_ROLE_LABEL = "training.kubeflow.org/job-role"


#: An annotation: the attempt of its role that a pod belongs to.
RESTART_ATTEMPT_ANNOTATION = "trainshed.dev/restart-attempt"


#: An annotation: a hash of the pod template that a pod was created from.
TEMPLATE_HASH_ANNOTATION = "trainshed.dev/template-hash"


#: An annotation of Kueue: the number of pods of the group that a pod belongs to.
POD_GROUP_SIZE_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"


#: An annotation: the name of the job's one Service, on pods whose names resolve by it.
JOB_SERVICE_ANNOTATION = "trainshed.dev/job-service"


def is_older(version: str, than: str) -> bool:
    """Return whether `version` is older than `than`.

    The resourceVersions of one server ascend and may be compared as integers (Kubernetes guarantees this since 1.35). A
    version that is not decimal is never older, so the value received last is taken as the newest.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class NodeProblem(msgspec.Struct, frozen=True):
    """A problem of a node in words, and since when it is there, as far as is known and matters.

    One that is `lasting` explains failures of the programs that run there. Others are only reported: a node is cordoned
    for many reasons, and Events are written about what programs do themselves, such as OOMKilling.
    """

    text: str
    since: datetime | None
    lasting: bool = True


class NodeReport(msgspec.Struct, frozen=True):
    """The problems of a node; none if it has none, or if it could not be read."""

    name: str
    problems: tuple[NodeProblem, ...] = ()
