"""The definition of a kind of job, and the defaults of the operator for jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from .job import (
    SINGLETON_ROLES,
    CleanPodPolicy,
    Document,
    Job,
    KueueForm,
    RecordDecisions,
    Replica,
    ReplicaGroup,
    RestartPolicy,
    RestartScope,
    ServiceForm,
)
from .objects import (
    JOB_NAME_LABEL,
    OPERATOR_NAME_LABEL,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
    DesiredDependent,
    Resource,
)

if TYPE_CHECKING:  # pydantic takes a tenth of a second, and who only reads a cluster needs no models of specs
    from .spec import JobSpec, Rule, UpdateRule


class JobDefaults(msgspec.Struct, frozen=True):
    """Settings of the operator that apply to all jobs; each is a flag."""

    #: The cluster domain, which follows `svc` in TF_CONFIG; v1 reads it from CUSTOM_CLUSTER_DOMAIN. Search domains need
    #: one: theirs is cluster.local, unless this is set.
    cluster_domain: str = ""
    #: The default of `cleanPodPolicy`; v1's is None.
    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    #: v1's init container on PyTorch workers, for images that do not wait for the master by themselves; made from the
    #: template, the content of a file in v1's format, if there is one.
    init_image: str = ""
    init_tries: int = 100
    init_template: str = ""
    #: The gang scheduler, by which the pods of a job are scheduled together: `volcano`, `kubernetes`, `kai-scheduler`,
    #: or the name of a scheduler with the coscheduling plugin. Empty means that each pod is scheduled by itself.
    gang_scheduler: str = ""
    #: Allow jobs to keep their pods until the results are in the status; needs the right to patch pods.
    track_results: bool = False
    #: Allow jobs to have the log of the replica that leads followed; needs the right to read logs.
    progress_logs: bool = False
    #: Read the nodes on which replicas failed, and the Events about them; needs the right to read nodes.
    node_health: bool = False
    #: Allow jobs to have a record kept after their end; needs the right to write ConfigMaps.
    record: bool = False
    #: Whose decisions are recorded while they exist; needs the right to read and write ConfigMaps.
    record_decisions: RecordDecisions = RecordDecisions.NONE
    #: Tell webhooks about jobs.
    notify: bool = False
    #: The Services of jobs without the annotation: v1's, one for each replica, or one for each job.
    services: ServiceForm = ServiceForm.REPLICA
    #: What Kueue admits of jobs in a queue without the annotation; always the job of a kind that Kueue has for good.
    kueue: KueueForm = KueueForm.JOB
    #: Annotations of all pods, by key, that a template which has the key overrides.
    pod_annotations: tuple[tuple[str, str], ...] = ()
    #: The image with kubectl for the launcher of an MPIJob of v1, built from kubectl-delivery.Dockerfile.
    mpi_kubectl_image: str = "ghcr.io/trainshed/kubectl-delivery:v1.36.1"
    #: Let service accounts that launchers name exec into the workers, although pods of others may use them; v1 did.
    mpi_bind_named_accounts: bool = False
    #: Requests and limits of the init containers that the operator adds, by resource; empty: those of their neighbour.
    init_resources: tuple[tuple[str, str], ...] = ()
    #: Host and port to which pods report the progress of their trainings; empty: there is no such endpoint.
    progress_server: str = ""


class Quorum(StrEnum):
    """The number of success-defining replicas that must succeed: all, the one with index 0, or any one."""

    ALL = "all"
    FIRST = "first"
    ANY = "any"


class SuccessPolicy(msgspec.Struct, frozen=True):
    """The role that defines the success of a job, and when the job counts as running.

    v1's messages name the job with its namespace if `qualified`. A success counts only if no replica of the role
    `depends_on` ended before it. With `require_all_running` the job is Running only while all of those run as well.
    """

    role: str
    quorum: Quorum
    qualified: bool
    depends_on: str = ""
    require_all_running: bool = False


class Variable(msgspec.Struct, frozen=True):
    """An environment variable: a literal value, or a `source` as in a container's `valueFrom`.

    A `user_overridable` variable is left out if the user's template sets it. Any other stands last in the container's
    `env`, so that it overrides the user's value.
    """

    name: str
    value: str = ""
    source: Document | None = None
    user_overridable: bool = False


def literals(*, user_overridable: bool = False, **values: str) -> tuple[Variable, ...]:
    """Return variables with these names and values, in this order."""
    return tuple(Variable(name, value, user_overridable=user_overridable) for name, value in values.items())


#: The variables of one replica. It is made once for a job and called once for each pod.
Environment = Callable[[Replica], tuple[Variable, ...]]
#: Changes in place the pod spec of one replica.
PodSpecMutator = Callable[[Replica, dict[str, Any]], None]


class FrameworkContainer(msgspec.Struct, frozen=True):
    """The framework's own container in each pod, and its port; port 0 means that no process listens.

    It is the container with this name if `by_name`, else the first one. All containers of the pod get the environment,
    or only this one.
    """

    name: str
    port_name: str = ""
    port: int = 0
    by_name: bool = True
    env_in_all_containers: bool = True


class Defaults(msgspec.Struct, frozen=True):
    """Values for what the spec of a job leaves open, and the timing of the kind.

    Roles in `on_failure_by_default` have the restart policy OnFailure, those in `zero_by_default` have no replicas.
    A failure within `cascade_window` seconds of another one counts as its consequence.
    """

    restart_policy: RestartPolicy
    zero_by_default: tuple[str, ...] = ()
    on_failure_by_default: tuple[str, ...] = ()
    backoff_limit: int | None = None
    cascade_window: int = 15


class Naming(msgspec.Struct, frozen=True):
    """Names and sentences in which kinds differ.

    `manager` is the value of `spec.runPolicy.managedBy` that stands for this operator, `operator` the value of the
    label `training.kubeflow.org/operator-name` ("": made from the kind). `ttl_event_reason` is the reason of the Event
    when the job is deleted after its TTL.
    """

    manager: str = "kubeflow.org/training-operator"
    operator: str = ""
    ttl_event_reason: str = "SuccessfulDeleteJob"
    failure_message: str = "{kind} {name} is failed because {count} {role} replica(s) failed."


class Objects(msgspec.Struct, frozen=True):
    """The objects of a job besides its pods.

    `services`: one Service for each replica. `job_service`: one Service with the job's name, under which DNS finds
    replicas by the names of their pods. `owns` lists the other kinds. When the job finishes, pods of `retained_roles`
    are deleted only if they still run, so that their logs can be read.
    """

    services: bool = True
    job_service: bool = False
    owns: tuple[Resource, ...] = ()
    retained_roles: tuple[str, ...] = ()


class PodNames(msgspec.Struct, frozen=True):
    """The names of the pods of a job: of those that run, and of all that exist, in any order."""

    running: Iterable[str] = ()
    existing: Iterable[str] = ()


class StartOrder(msgspec.Struct, frozen=True):
    """The role whose replicas must be ready before those of another are created.

    It yields where it may stop a scheduler or a readiness probe, unless the spec of the job has `requested` it.
    """

    role: str
    requested: bool = False


class Hooks(msgspec.Struct, frozen=True):
    """The functions of a kind; all are pure."""

    #: The success policy of a job, or None if it has no role that could define its success.
    success_policy: Callable[[Job], SuccessPolicy | None]
    #: Whether a replica bears the label `training.kubeflow.org/job-role: master`.
    is_leader: Callable[[Job, Replica], bool]
    #: The pods that a restart after a failure replaces, unless the user chooses.
    scope: Callable[[Job], RestartScope]
    environment: Callable[[Job, JobDefaults], Environment]
    #: Problems of a job that the rules of its kind cannot express.
    validate: Callable[[Job, JobDefaults], tuple[str, ...]] = lambda _job, _defaults: ()
    #: Init containers that a replica's pod gets.
    init_containers: Callable[[Job, Replica, JobDefaults], tuple[Document, ...]] = lambda _job, _replica, _defaults: ()
    #: Changes of the pod spec besides the environment.
    mutate_pod_spec: Callable[[Job, JobDefaults], PodSpecMutator] = lambda _job, _defaults: lambda _replica, _spec: None
    #: Labels of a replica's pod besides v1's.
    extra_labels: Callable[[Job, Replica], tuple[tuple[str, str], ...]] = lambda _job, _replica: ()
    #: Roles whose replicas may fail permanently without failing the job.
    optional_roles: Callable[[Job], tuple[str, ...]] = lambda _job: ()
    #: What must be ready before replicas of this role are created; None for nothing.
    start_after: Callable[[Job, str], StartOrder | None] = lambda _job, _role: None
    #: The objects of the kinds that the job owns, given the names of its pods.
    dependents: Callable[[Job, JobDefaults, PodNames], tuple[DesiredDependent, ...]] = lambda _job, _defaults, _pods: ()
    #: Reason and message of a Warning about something that the job asks for in vain.
    warnings: Callable[[Job, JobDefaults], tuple[tuple[str, str], ...]] = lambda _job, _defaults: ()
    #: The name of the Secret with the job's ssh keys; "" for none.
    ssh_secret_name: Callable[[Job], str] = lambda _job: ""


class Framework(msgspec.Struct, frozen=True):
    """One kind of training job.

    `label` is its value in metrics. `field` is the field of the spec that maps roles to ReplicaSpecs; `roles` stand in
    the order in which their pods are created. `options` makes the kind's options from a validated spec, which is an
    instance of `spec`, and the job's replicas: `Job.options_as` returns them.
    """

    kind: str
    plural: str
    label: str
    field: str
    roles: tuple[str, ...]
    spec: type[JobSpec]
    container: FrameworkContainer
    defaults: Defaults
    hooks: Hooks
    version: str = "v1"
    rules: tuple[Rule, ...] = ()
    update_rules: tuple[UpdateRule, ...] = ()
    options: Callable[[Any, tuple[ReplicaGroup, ...]], object] = lambda _spec, _replicas: None
    naming: Naming = Naming()
    objects: Objects = Objects()
    #: Role names may be written in any case.
    case_insensitive: bool = False
    #: The status holds selectors, and the CRD has the scale subresource.
    selectors: bool = False
    #: `kubectl get` prints the age before the state.
    age_first: bool = False
    #: Kueue has an integration of its own for the kind, also once it has dropped those of kubeflow.org/v1.
    in_kueue: bool = False

    @property
    def operator_name(self) -> str:
        """The value of the label `training.kubeflow.org/operator-name`."""
        return self.naming.operator or f"{self.kind.lower()}-controller"

    @property
    def api_version(self) -> str:
        """The value of `apiVersion`."""
        return f"kubeflow.org/{self.version}"

    @property
    def prefix(self) -> str:
        """The path of its API group and version on the API server."""
        return f"/apis/{self.api_version}"


def owned_resources(frameworks: Iterable[Framework]) -> tuple[Resource, ...]:
    """Return the kinds of dependents that jobs of these frameworks may own, without PodGroups; each once."""
    return tuple(dict.fromkeys(resource for framework in frameworks for resource in framework.objects.owns))


def own_container(known: FrameworkContainer, containers: Sequence[Document], main: str = "") -> Document:
    """Return the framework's own container of a pod template, an empty document if the template has no container.

    It is the container with the name `main`, which the job gives, else with that of the framework, else the first. Pods
    have more containers, before and after it, if admission webhooks inject some: there it is found by its name.
    """
    for name in (main, known.name if known.by_name else ""):
        for container in containers if name else ():
            if container.get("name") == name:
                return container
    return containers[0] if containers else {}


def child_name(job: Job, replica: Replica) -> str:
    """Return the name of the pod and the Service of a replica."""
    return f"{job.name}-{replica}"


def index_label(replica: Replica) -> dict[str, str]:
    """Return the label that distinguishes a replica from the others of its role; a launcher has none.

    With the labels of the role it is the selector of the Service of the replica.
    """
    return {} if replica.role in SINGLETON_ROLES else {REPLICA_INDEX_LABEL: str(replica.index)}


def role_labels(framework: Framework, job: Job, role: str) -> dict[str, str]:
    """Return the labels that all replicas of a role share."""
    return job_labels(framework, job) | {REPLICA_TYPE_LABEL: role.lower()}


def job_labels(framework: Framework, job: Job) -> dict[str, str]:
    """Return the labels that all replicas of a job share."""
    return {OPERATOR_NAME_LABEL: framework.operator_name, JOB_NAME_LABEL: job.name}


def selector(framework: Framework, job: Job, role: str) -> str:
    """Return the labels of a role as a sorted selector, for `status.replicaStatuses` and the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in sorted(role_labels(framework, job, role).items()))
