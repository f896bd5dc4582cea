"""MPIJob v1: the launcher starts ranks in its workers by `kubectl exec`; its exit code is the job's result.

Names and contents of the objects are v1's. Open MPI 5 and MPICH read PRTE_MCA_ and HYDRA_ instead of v1's variables.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from trainshed.api.framework import (
    Defaults,
    Environment,
    Framework,
    FrameworkContainer,
    Hooks,
    JobDefaults,
    Objects,
    PodSpecMutator,
    Quorum,
    SuccessPolicy,
    Variable,
)
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy, Scope
from trainshed.api.objects import CONFIG_MAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, DesiredDependent
from trainshed.api.spec import Count, JobSpec, ReplicaSpec, RunPolicyField, RunPolicySpec
from trainshed.api.validation import named_containers, required_role, single_replica

LAUNCHER, WORKER = "Launcher", "Worker"
#: The paths of the configuration and of kubectl in the launcher.
CONFIG, KUBECTL = "/etc/mpi", "/opt/kube"
HOSTFILE, KUBEXEC, DISCOVER = "hostfile", "kubexec.sh", "discover_hosts.sh"
RUNNABLE, READABLE = 0o555, 0o444
#: With a gang scheduler the launcher starts together with its workers, so its script waits for each of them.
WAIT = f'{KUBECTL}/kubectl wait --for=condition=Ready --timeout=600s "pod/$pod" >&2\n'
DELIVERY_NEEDS = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}

FIELD = "mpiReplicaSpecs"


class MPIJobSpec(JobSpec):
    """The spec of an MPIJob. The `cleanPodPolicy` beside `runPolicy` is the older form, which v1 still accepts."""

    run_policy: RunPolicyField = RunPolicySpec()
    slots_per_worker: Count | None = None
    clean_pod_policy: Literal["All", "Running", "None"] | None = None
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


def options(spec: MPIJobSpec, _replicas: tuple[ReplicaGroup, ...]) -> MPIJobOptions:
    """Return the options of a job with this spec."""
    return MPIJobOptions(slots=spec.slots_per_worker or 1, main_container=spec.main_container or "")


def scope(job: Job) -> Scope:
    """Return `Job`: ranks start and end together; `Replica` if the launcher polls for hosts, as in elastic Horovod."""
    launcher = job.of(LAUNCHER)
    return Scope.REPLICA if launcher and any(DISCOVER in word for word in _words(launcher.template)) else Scope.JOB


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


def dependents(job: Job, job_defaults: JobDefaults, running: Iterable[str]) -> tuple[DesiredDependent, ...]:
    """Return the launcher's ConfigMap, and RBAC objects that allow `exec` in its own workers only."""
    name, account, workers = f"{job.name}-launcher", _account(job), _workers(job)
    labels = (("app", job.name),)
    hosts = [f"{name} slots={job.options_as(MPIJobOptions).slots}"] if computes(job) else []
    hosts += [f"{worker} slots={job.options_as(MPIJobOptions).slots}" for worker in workers]
    up = set(running)
    data = {
        HOSTFILE: "".join(f"{host}\n" for host in hosts),
        KUBEXEC: _kubexec(job, job_defaults),
        DISCOVER: _discover(job, sorted(worker for worker in workers if worker in up)),
    }
    enter = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": workers}]
    see = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": job.namespace}
    # A ServiceAccount that the job does not name must be its own: another's of that name would gain these rights.
    return (
        DesiredDependent(SERVICE_ACCOUNTS, account, {}, labels, shared=bool(_named_account(job))),
        DesiredDependent(CONFIG_MAPS, config_name(job), {"data": data}, labels),
        # An empty list of names would allow all pods, so without workers there is no such rule.
        DesiredDependent(ROLES, name, {"rules": [see, *(enter if workers else ())]}, labels),
        DesiredDependent(ROLE_BINDINGS, name, {"roleRef": reference, "subjects": [subject]}, labels),
    )


def mutate_pod_spec(job: Job, job_defaults: JobDefaults) -> PodSpecMutator:
    """Let workers sleep until `kubectl exec`; give the launcher kubectl, its configuration and a ServiceAccount."""

    def worker(spec: dict[str, Any]) -> None:
        first = spec["containers"][0]
        if not first.get("command"):
            first.update(command=["sleep"], args=["365d"])
        _mount(spec, first, (_config(job, {KUBEXEC: RUNNABLE}), CONFIG))

    def launcher(spec: dict[str, Any]) -> None:
        config = _config(job, {KUBEXEC: RUNNABLE, HOSTFILE: READABLE, DISCOVER: RUNNABLE})
        kubectl = {"name": "mpi-job-kubectl", "emptyDir": {}}
        mounts = _mount(spec, spec["containers"][0], (kubectl, KUBECTL), (config, CONFIG))
        spec["serviceAccountName"] = _account(job)
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _delivery(job, job_defaults, mounts)]

    return lambda replica, spec: (launcher if replica.role == LAUNCHER else worker)(spec)


def computes(job: Job) -> bool:
    """Return whether the launcher requests a GPU, and so is a host of ranks; v1's rule."""
    launcher = job.of(LAUNCHER)
    containers = (launcher.template.get("spec") or {}).get("containers") or () if launcher else ()
    limits = ((container.get("resources") or {}).get("limits") or {} for container in containers)
    return any("gpu" in resource for found in limits for resource in found)


def config_name(job: Job) -> str:
    """Return the name of the ConfigMap."""
    return f"{job.name}-config"


def _account(job: Job) -> str:
    return _named_account(job) or f"{job.name}-launcher"


def _named_account(job: Job) -> str:
    launcher = job.of(LAUNCHER)
    spec = (launcher.template.get("spec") or {}) if launcher else {}
    return str(spec.get("serviceAccountName") or "")


def _workers(job: Job) -> list[str]:
    group = job.of(WORKER)
    return [f"{job.name}-{Replica(WORKER, index)}" for index in range(group.count if group else 0)]


def _kubexec(job: Job, job_defaults: JobDefaults) -> str:
    main = job.options_as(MPIJobOptions).main_container
    container = f" --container {shlex.quote(main)}" if main else ""
    wait = WAIT if job_defaults.gang_scheduler else ""
    enter = f'{KUBECTL}/kubectl exec "$pod"{container} -- /bin/sh -c "$*"'
    return f'#!/bin/sh\nset -x\npod="$1"\nshift\n{wait}{enter}\n'


def _discover(job: Job, running: list[str]) -> str:
    own = f"\necho {job.name}-launcher:{job.options_as(MPIJobOptions).slots}\n" if computes(job) else ""
    return "#!/bin/sh" + own + "".join(f"\necho {worker}:{job.options_as(MPIJobOptions).slots}" for worker in running)


def _config(job: Job, items: dict[str, int]) -> Document:
    listed = [{"key": key, "path": key, "mode": mode} for key, mode in items.items()]
    return {"name": "mpi-job-config", "configMap": {"name": config_name(job), "items": listed}}


def _mount(spec: dict[str, Any], container: dict[str, Any], *volumes: tuple[Document, str]) -> list[Document]:
    mounts: list[Document] = [{"name": volume["name"], "mountPath": path} for volume, path in volumes]
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
    spec["volumes"] = [*(spec.get("volumes") or ()), *(volume for volume, _ in volumes)]
    return mounts


def _delivery(job: Job, job_defaults: JobDefaults, mounts: list[Document]) -> Document:
    return {
        "name": "kubectl-delivery",
        "image": job_defaults.mpi_kubectl_image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "TARGET_DIR", "value": KUBECTL}, {"name": "NAMESPACE", "value": job.namespace}],
        "volumeMounts": mounts,
        "resources": {"limits": DELIVERY_NEEDS, "requests": DELIVERY_NEEDS},
    }


def _words(template: Document) -> Iterator[str]:
    """Yield the words of the commands and arguments in a template."""
    for container in (template.get("spec") or {}).get("containers") or ():
        for part in ("command", "args"):
            yield from (str(word) for word in container.get(part) or ())


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
        start_after=lambda _job, role: WORKER if role == LAUNCHER else "",
        mutate_pod_spec=mutate_pod_spec,
    ),
    age_first=True,
)
