"""A training job, parsed, with its defaults filled in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import msgspec

#: A part of a pod template or of another object, unchanged.
Document = Mapping[str, Any]
#: The options that one kind of job has besides those of all kinds; each kind defines its own class.
Options = TypeVar("Options")


#: The prefix of Kueue's labels and annotations: the queue's name is a label of the job. Of a job without that label
#: (manageJobsWithoutQueueName) the pod templates get some when it is admitted.
KUEUE_PREFIX = "kueue.x-k8s.io/"
#: The label of a job that names its queue of Kueue.
QUEUE_LABEL = f"{KUEUE_PREFIX}queue-name"


class PackedDocument(Mapping[str, Any]):
    """A large document that is kept as JSON, and parsed when it is read: parsed it may take twenty times as much.

    The JSON is a list of documents that are read together, of which this is one; those that were read last stay parsed.
    """

    __slots__ = ("_content", "_number")

    def __init__(self, content: bytes, number: int) -> None:
        self._content = content
        self._number = number

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        return _unpacked(self._content)[self._number][key]

    def __iter__(self) -> Iterator[str]:
        return iter(_unpacked(self._content)[self._number])

    def __len__(self) -> int:
        return len(_unpacked(self._content)[self._number])


#: Documents with more bytes of JSON than this are packed.
MAX_PARSED = 64 * 1024


def packed(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Return documents that are read together, packed if they are large and can be encoded."""
    found = tuple(documents)
    try:
        content = msgspec.json.encode(found)
    except (OverflowError, RecursionError, ValueError):  # such as half a character
        return found
    return tuple(PackedDocument(content, n) for n in range(len(found))) if len(content) > MAX_PARSED else found


@lru_cache(maxsize=1)
def _unpacked(content: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(content)
    return found


class RestartPolicy(StrEnum):
    """The action for a replica that failed; the values are those of the `kubeflow.org/v1` API."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"

    @property
    def restarts_in_place(self) -> bool:
        """True if the kubelet restarts a failed container in the same pod."""
        return self in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE)


class CleanPodPolicy(StrEnum):
    """The pods that are deleted when the job finishes."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class RestartScope(StrEnum):
    """The pods that a restart replaces: the failed replica's, those of its role, or those of the job."""

    REPLICA = "Replica"
    ROLE = "Role"
    JOB = "Job"


class RecordDecisions(StrEnum):
    """Of which jobs the operator records its decisions: of none, of those that ask by their annotation, or of all."""

    NONE = "None"
    ANNOTATED = "Annotated"
    ALL = "All"


class ServiceForm(StrEnum):
    """The headless Services of a job: one for each replica, or one for the job."""

    REPLICA = "Replica"
    JOB = "Job"


class KueueForm(StrEnum):
    """What Kueue admits: the job, which it suspends until then, or its pods as a group."""

    JOB = "Job"
    POD_GROUP = "PodGroup"


class ProgressSource(StrEnum):
    """Where the operator learns how far the training of a job has come."""

    NONE = "None"
    LOGS = "Logs"
    ENDPOINT = "Endpoint"


#: Roles with a single replica, whose name has no index.
SINGLETON_ROLES = ("Launcher",)
#: Roles whose pods have no ranks.
ASIDE = ("Launcher", "PS", "Evaluator")


class Replica(NamedTuple):
    """A replica of a job: its `role`, in canonical case, and its `index`, counted from 0.

    A tuple, because the facts of a job have many dictionaries with its replicas as keys.
    """

    role: str
    index: int  # type: ignore[assignment] # hides tuple.index, which has no use here

    def __str__(self) -> str:
        return self.role.lower() if self.role in SINGLETON_ROLES else f"{self.role.lower()}-{self.index}"


class Port(msgspec.Struct, frozen=True):
    """A port of the framework's container; without a name it has the name ""."""

    name: str
    number: int
    protocol: str = "TCP"


class ReplicaGroup(msgspec.Struct, frozen=True):
    """The replicas of one role; `port` is the port of the framework's container, `container` its name.

    `template_hash` changes with the template. Pods have it as an annotation.
    """

    role: str
    count: int
    restart_policy: RestartPolicy
    template: Document
    ports: tuple[Port, ...]
    port: int
    template_hash: str = ""
    container: str = ""

    @property
    def replicas(self) -> Iterator[Replica]:
        """The replicas of the role, in the order of their indexes."""
        return map(Replica, repeat(self.role), range(self.count))


class Scheduling(msgspec.Struct, frozen=True):
    """`runPolicy.schedulingPolicy`, for a gang scheduler; None and "" mean not set, `timeout` is in seconds."""

    min_available: int | None = None
    queue: str = ""
    min_resources: Document | None = None
    priority_class: str = ""
    timeout: int | None = None


class RunPolicy(msgspec.Struct, frozen=True):
    """`spec.runPolicy`; durations are in seconds, None means no limit."""

    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    ttl: int | None = None
    deadline: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    managed_elsewhere: bool = False
    scheduling: Scheduling = Scheduling()


class Job(msgspec.Struct, frozen=True):
    """A job; `version` is its resourceVersion.

    `problems` are the messages of its validation, empty for a valid job. `options` are those of its kind (see
    `options_as`). `annotations` are the user's that the planner reads. `force_delete_after`, `startup_deadline`,
    `pod_end_grace`, `checkpoint_grace` (how long a replica may save on SIGTERM) and `hang_deadline` are in seconds.
    A `queued` job is admitted by Kueue: it gives back its quota by what the status says.
    With `avoid_failed_nodes` new pods prefer other nodes than those on which the job has failed more than once.
    With `track_results` a finalizer holds the pods of the role that defines success until the status has their results.
    `services` is the form of Services of the pods that are created next. `progress` is where the training reports,
    and `log_expression` its own expression for lines of its log. On `debug_port` of rank 0 PyTorch's debug server
    listens. With `record` a record of the job is kept when it has ended. `notify` is the webhook that is sent of it.
    `queue_labels` are Kueue's labels of a job with a queue. Of a `grouped` one Kueue admits the pods, as a group.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    deleting: bool
    groups: tuple[ReplicaGroup, ...]
    policy: RunPolicy
    options: object = None
    scope: RestartScope | None = None
    fail_on_disruption: bool = False
    force_delete_after: int | None = None
    startup_deadline: int | None = None
    pod_end_grace: int = 30
    checkpoint_grace: int | None = None
    avoid_failed_nodes: bool = False
    hang_deadline: int | None = None
    restarts_when_hung: bool = False
    debug_port: int | None = None
    track_results: bool = False
    services: ServiceForm = ServiceForm.REPLICA
    progress: ProgressSource = ProgressSource.NONE
    log_expression: str = ""
    record: bool = False
    decisions: bool = False
    notify: str = ""
    queued: bool = False
    queue_labels: tuple[tuple[str, str], ...] = ()
    grouped: bool = False
    problems: tuple[str, ...] = ()
    annotations: Document = msgspec.field(default_factory=dict)
    api_version: str = "kubeflow.org/v1"
    created: datetime | None = None

    @property
    def key(self) -> JobKey:
        """The key of the job; a job that is created again with the same name has the same one."""
        return JobKey(self.namespace, self.kind, self.name)

    @property
    def in_queue(self) -> bool:
        """True if a queue may wait for the resources that the pods of the job hold: it is queued, or suspended."""
        return self.queued or self.policy.suspend

    def of(self, role: str) -> ReplicaGroup | None:
        """Return the replicas of `role`, or None if the job has no such role."""
        for group in self.groups:
            if group.role == role:
                return group
        return None

    def port(self, role: str, otherwise: int) -> int:
        """Return the port of the replicas of `role`, or `otherwise` if the job has no such role."""
        group = self.of(role)
        return group.port if group else otherwise

    def options_as(self, kind: type[Options]) -> Options:
        """Return the options of the job's kind, or their defaults if its spec could not be read."""
        return self.options if isinstance(self.options, kind) else kind()

    @property
    def all_replicas(self) -> Iterator[Replica]:
        """All replicas of the job, in the order of its roles; an iterator, because there may be 100,000."""
        return (replica for group in self.groups for replica in group.replicas)

    @property
    def size(self) -> int:
        """The number of replicas of all roles."""
        return sum([group.count for group in self.groups])


class JobKey(msgspec.Struct, frozen=True, order=True):
    """Identifies a job."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
