"""MPIJob v1: the launcher starts ranks in its workers by `kubectl exec`; its exit code is the job's result.

Names and contents of the objects are v1's. Open MPI 5 and MPICH read PRTE_MCA_ and HYDRA_ instead of v1's variables.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.framework import (
    Defaults,
    Environment,
    Framework,
    FrameworkContainer,
    Hooks,
    JobDefaults,
    Objects,
    PodNames,
    PodSpecMutator,
    Quorum,
    SuccessPolicy,
    Variable,
)
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy, RestartScope
from trainshed.api.objects import CONFIG_MAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, DesiredDependent
from trainshed.api.replicas import replicas_by_name
from trainshed.api.spec import Count, JobSpec, ReplicaSpec, RunPolicyField, RunPolicySpec
from trainshed.api.validation import (
    config_map_too_large,
    list_length,
    named_containers,
    required_role,
    single_replica,
    taken_volumes,
)

LAUNCHER, WORKER = "Launcher", "Worker"
#: The paths of the configuration and of kubectl in the launcher.
CONFIG, KUBECTL = "/etc/mpi", "/opt/kube"
HOSTFILE, KUBEXEC, DISCOVER = "hostfile", "kubexec.sh", "discover_hosts.sh"
RUNNABLE, READABLE = 0o555, 0o444
ALLOWED = f'{KUBECTL}/kubectl auth can-i create "pods/$pod" --subresource=exec'
#: The launcher is created together with its workers, so its script waits for each of them: without end for a worker
#: that has not started, as it may wait for a node, and 30 s for its readiness, which may depend on the launcher. Then
#: it waits until the Role names the worker: the operator adds the names when all pods exist, and until then nothing can
#: be read of the worker either. An account without the Role may not read the ConfigMap, and waits for nothing.
WAIT = f"""\
[ -x {KUBECTL}/kubectl ] || exit 127
tries=600
until said=$({KUBECTL}/kubectl wait --for=condition=Ready --timeout=30s "pod/$pod" 2>&1); do
  case "$said" in *orbidden*)
    {KUBECTL}/kubectl auth can-i get "configmaps/$config" >/dev/null 2>&1 || {{ tries=1; break; }};;
  esac
  phase=$({KUBECTL}/kubectl get pod "$pod" -o 'jsonpath={{.status.phase}}' 2>&1)
  case "$phase" in Running|Succeeded|Failed) break;; esac
  sleep 1
done
for _ in $(seq $tries); do {ALLOWED} >/dev/null 2>&1 && break; sleep 1; done
"""
#: More bytes than the scripts of the ConfigMap have without the workers.
MARGIN = 4096
#: The reason of the Warning about an account that gets no right to exec.
NOT_BOUND = "ServiceAccountNotBound"

FIELD = "mpiReplicaSpecs"


class MPIJobSpec(JobSpec):
    """The spec of an MPIJob. The `cleanPodPolicy` beside `runPolicy` is the older form, which v1 still accepts."""

    run_policy: RunPolicyField = RunPolicySpec()
    slots_per_worker: Count | None = None
    clean_pod_policy: Literal["", "All", "Running", "None"] | None = None
    main_container: str | None = None
    mpi_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]

    @property
    def top_level_clean_pod_policy(self) -> str | None:
        """The older form."""
        return self.clean_pod_policy

    @property
    def named_container(self) -> str:
        """The container that runs the MPI program."""
        return self.main_container or ""


@dataclass(frozen=True, slots=True)
class MPIJobOptions:
    """The options of an MPIJob."""

    slots: int = 1
    main_container: str = ""


def launcher_name(job: str) -> str:
    """Return the name of the Role and the service account of the launcher of a job."""
    return f"{job}-launcher"


def options(spec: MPIJobSpec, _replicas: tuple[ReplicaGroup, ...]) -> MPIJobOptions:
    """Return the options of a job with this spec."""
    return MPIJobOptions(slots=spec.slots_per_worker or 1, main_container=spec.main_container or "")


def scope(job: Job) -> RestartScope:
    """Return `Job`: ranks start and end together; `Replica` if the launcher polls for hosts, as in elastic Horovod."""
    launcher = job.of(LAUNCHER)
    return (
        RestartScope.REPLICA
        if launcher and any(DISCOVER in word for word in _words(launcher.template))
        else RestartScope.JOB
    )


def environment(job: Job, _defaults: JobDefaults) -> Environment:
    """Return the launcher's variables, by which each MPI finds and enters its hosts; workers get none."""
    kubexec, hostfile = f"{CONFIG}/{KUBEXEC}", f"{CONFIG}/{HOSTFILE}"
    nvidia = {} if computes(job) else {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    from_v1 = {"OMPI_MCA_plm_rsh_agent": kubexec, "OMPI_MCA_orte_default_hostfile": hostfile, **nvidia}
    intel = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": kubexec}
    newer = {"PRTE_MCA_plm_ssh_agent": kubexec, "PRTE_MCA_prte_default_hostfile": hostfile}
    mpich = {"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": kubexec}
    v1s = (Variable(name, value) for name, value in from_v1.items())
    others = (Variable(name, value, user_overridable=True) for name, value in {**intel, **newer, **mpich}.items())
    variables = (*v1s, *others)
    return lambda replica: variables if replica.role == LAUNCHER else ()


def dependents(job: Job, job_defaults: JobDefaults, pods: PodNames) -> tuple[DesiredDependent, ...]:
    """Return the launcher's ConfigMap, and RBAC objects by which it sees and enters its own workers only.

    The Role names pods that exist and are this job's: a pod of another job may have the name of a worker that does not
    exist. Where all pods restart together it names all or none, so that it is written once for all of them.
    """
    name, account, count = launcher_name(job.name), _account(job), _workers(job)
    labels, slots = (("app", job.name),), f" slots={job.options_as(MPIJobOptions).slots}\n"
    entered = _of_workers(job, pods.existing)
    if len(entered) < count and (job.scope or scope(job)) is RestartScope.JOB:
        entered = []
    data = {
        HOSTFILE: (f"{name}{slots}" if computes(job) else "")
        + "".join([f"{job.name}-worker-{index}{slots}" for index in range(count)]),
        KUBEXEC: _kubexec(job),
        DISCOVER: _discover(job, sorted(_of_workers(job, pods.running))),
    }
    rights = (
        ("configmaps", ["get"], [config_name(job)]),
        ("pods", ["get", "list", "watch"], entered),
        ("pods/exec", ["create"], entered),
    )
    # An empty list of names would allow all pods, so without workers there is no such rule.
    rules = [
        {"apiGroups": [""], "resources": [resource], "verbs": verbs, "resourceNames": names}
        for resource, verbs, names in rights
        if names
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": job.namespace}
    # A ServiceAccount that the job does not name must be its own: another's of that name would gain these rights.
    binding = DesiredDependent(ROLE_BINDINGS, name, {"roleRef": reference, "subjects": [subject]}, labels)
    return (
        DesiredDependent(SERVICE_ACCOUNTS, account, {}, labels, shared=bool(_named_account(job))),
        DesiredDependent(CONFIG_MAPS, config_name(job), {"data": data}, labels),
        DesiredDependent(ROLES, name, {"rules": rules}, labels),
        *((binding,) if _is_bound(job, job_defaults) else ()),
    )


def warnings(job: Job, job_defaults: JobDefaults) -> tuple[tuple[str, str], ...]:
    """Return that the account which the launcher names gets no right to exec."""
    if _is_bound(job, job_defaults):
        return ()
    account, role = _account(job), launcher_name(job.name)
    message = (
        f"the operator does not let the service account {account} exec into the workers, because other pods may use it:"
        f" remove serviceAccountName from the launcher, or bind the Role {role} to it, or let an administrator set"
        " --mpi-bind-named-service-accounts"
    )
    return ((NOT_BOUND, message),)


def _is_bound(job: Job, job_defaults: JobDefaults) -> bool:
    return not _named_account(job) or job_defaults.mpi_bind_named_accounts


def mutate_pod_spec(job: Job, _defaults: JobDefaults) -> PodSpecMutator:
    """Let workers sleep until `kubectl exec`; give the launcher kubectl, its configuration and a ServiceAccount."""

    def worker(spec: dict[str, Any]) -> None:
        first = spec["containers"][0]
        if not first.get("command"):
            first.update(command=["sleep"], args=["365d"])
        _mount(spec, first, (_config(job, {KUBEXEC: RUNNABLE}), CONFIG))

    def launcher(spec: dict[str, Any]) -> None:
        config = _config(job, {KUBEXEC: RUNNABLE, HOSTFILE: READABLE, DISCOVER: RUNNABLE})
        kubectl = {"name": "mpi-job-kubectl", "emptyDir": {}}
        _mount(spec, spec["containers"][0], (kubectl, KUBECTL), (config, CONFIG))
        spec["serviceAccountName"] = _account(job)

    return lambda replica, spec: (launcher if replica.role == LAUNCHER else worker)(spec)


def validate(job: Job, _defaults: JobDefaults) -> tuple[str, ...]:
    """Return what keeps the pods or the ConfigMap of a job from being created."""
    line = f"{job.name}-{Replica(WORKER, 0)} slots={job.options_as(MPIJobOptions).slots}\n"
    data = 2 * list_length(line, _workers(job)) + MARGIN  # the hostfile, and the script with all workers running
    added = {LAUNCHER: {"mpi-job-kubectl": KUBECTL, "mpi-job-config": CONFIG}, WORKER: {"mpi-job-config": CONFIG}}
    twice = (problem for group in job.groups for problem in taken_volumes(group, FIELD, added[group.role]))
    return (*twice, *config_map_too_large(job, FIELD, config_name(job), data))


def computes(job: Job) -> bool:
    """Return whether the launcher requests a GPU, and so is a host of ranks; v1's rule."""
    launcher = job.of(LAUNCHER)
    resources = (container.get("resources") for container in (_containers(launcher.template) if launcher else ()))
    return any("gpu" in name for found in resources for name in as_mapping(as_mapping(found).get("limits")))


def config_name(job: Job) -> str:
    """Return the name of the ConfigMap."""
    return f"{job.name}-config"


def _account(job: Job) -> str:
    return _named_account(job) or launcher_name(job.name)


def _named_account(job: Job) -> str:
    """Return the account that the launcher names, if it is not the job's own."""
    launcher = job.of(LAUNCHER)
    spec = as_mapping(launcher.template.get("spec")) if launcher else {}
    account = str(spec.get("serviceAccountName") or "")
    return "" if account == launcher_name(job.name) else account


def _workers(job: Job) -> int:
    group = job.of(WORKER)
    return group.count if group else 0


def _of_workers(job: Job, pods: Iterable[str]) -> list[str]:
    """Return those of these names that pods of workers have, in the order of their indexes."""
    found = replicas_by_name(job, list(pods))
    return sorted((name for name in found if found[name].role == WORKER), key=lambda name: found[name].index)


def _kubexec(job: Job) -> str:
    # Without a name kubectl takes the pod's first container, which may be one that a webhook has put there.
    workers = job.of(WORKER)
    main = job.options_as(MPIJobOptions).main_container or (workers.container if workers else "")
    container = f" --container {shlex.quote(main)}" if main else ""
    enter = f'{KUBECTL}/kubectl exec "$pod"{container} -- /bin/sh -c "$*"'
    return f'#!/bin/sh\npod="$1" config={config_name(job)}\nshift\n{WAIT}set -x\n{enter}\n'


def _discover(job: Job, running: list[str]) -> str:
    own = f"\necho {job.name}-launcher:{job.options_as(MPIJobOptions).slots}\n" if computes(job) else ""
    return "#!/bin/sh" + own + "".join(f"\necho {worker}:{job.options_as(MPIJobOptions).slots}" for worker in running)


def _config(job: Job, items: dict[str, int]) -> Document:
    listed = [{"key": key, "path": key, "mode": mode} for key, mode in items.items()]
    return {"name": "mpi-job-config", "configMap": {"name": config_name(job), "items": listed}}


def _mount(spec: dict[str, Any], container: dict[str, Any], *volumes: tuple[Document, str]) -> None:
    mounts: list[Document] = [{"name": volume["name"], "mountPath": path} for volume, path in volumes]
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
    spec["volumes"] = [*(spec.get("volumes") or ()), *(volume for volume, _ in volumes)]


def init_containers(job: Job, replica: Replica, job_defaults: JobDefaults) -> tuple[Document, ...]:
    """Return the init container that copies kubectl for the launcher."""
    if replica.role != LAUNCHER:
        return ()
    volumes = {"mpi-job-kubectl": KUBECTL, "mpi-job-config": CONFIG}
    delivery = {
        "name": "kubectl-delivery",
        "image": job_defaults.mpi_kubectl_image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "TARGET_DIR", "value": KUBECTL}, {"name": "NAMESPACE", "value": job.namespace}],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in volumes.items()],
    }
    return (delivery,)


def _containers(template: Document) -> Iterator[Document]:
    """Yield the containers of a template; another CRD than Trainshed's may accept anything in their place."""
    return map(as_mapping, as_sequence(as_mapping(template.get("spec")).get("containers")))


def _words(template: Document) -> Iterator[str]:
    """Yield the words of the commands and arguments in a template."""
    for container in _containers(template):
        for part in ("command", "args"):
            yield from (str(word) for word in as_sequence(container.get(part)))


MPI = Framework(
    kind="MPIJob",
    plural="mpijobs",
    label="mpi",
    field=FIELD,
    roles=(LAUNCHER, WORKER),
    spec=MPIJobSpec,
    rules=(
        required_role(FIELD, LAUNCHER),
        single_replica(FIELD, LAUNCHER, default=True),
        named_containers(FIELD),
    ),
    options=options,
    container=FrameworkContainer("mpi", by_name=False, env_in_all_containers=False),
    defaults=Defaults(restart_policy=RestartPolicy.NEVER, zero_by_default=(WORKER,)),
    objects=Objects(services=False, owns=(SERVICE_ACCOUNTS, CONFIG_MAPS, ROLES, ROLE_BINDINGS)),
    hooks=Hooks(
        success_policy=lambda _job: SuccessPolicy(LAUNCHER, Quorum.ALL, qualified=False, depends_on=WORKER),
        is_leader=lambda _job, replica: replica.role == LAUNCHER,
        scope=scope,
        environment=environment,
        dependents=dependents,
        validate=validate,
        warnings=warnings,
        init_containers=init_containers,
        mutate_pod_spec=mutate_pod_spec,
    ),
    age_first=True,
)
