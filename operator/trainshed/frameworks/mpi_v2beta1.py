"""MPIJob v2beta1, as in mpi-operator: the launcher enters its workers by ssh, with a key of its own for each job.

Names and contents of the objects are mpi-operator's. Open MPI 5 and MPICH read PRTE_MCA_ and HYDRA_LAUNCHER_ instead
of its variables.
"""

from __future__ import annotations

import hashlib
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
    Naming,
    Objects,
    PodNames,
    PodSpecMutator,
    Quorum,
    StartOrder,
    SuccessPolicy,
    Variable,
    literals,
)
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy, RestartScope
from trainshed.api.objects import CONFIG_MAPS, DesiredDependent
from trainshed.api.replicas import replicas_by_name
from trainshed.api.spec import CommonRunPolicySpec, Count, JobSpec, Level, ReplicaSpec, Rule, null_is
from trainshed.api.validation import (
    config_map_too_large,
    has_full_searches,
    list_length,
    named_containers,
    required_role,
    single_replica,
    taken_volumes,
)

LAUNCHER, WORKER = "Launcher", "Worker"
CONFIG, ROOT = "/etc/mpi", "/root/.ssh"
HOSTFILE, DISCOVER = "hostfile", "discover_hosts.sh"
#: The files that ssh reads, and their keys in the Secret.
FILES = {"id_rsa": "ssh-privatekey", "id_rsa.pub": "ssh-publickey", "authorized_keys": "ssh-publickey"}
#: Retries cover the seconds until a worker's sshd listens; a missing DNS address is still fatal.
SSH_OPTIONS = "-o ConnectionAttempts=10"
#: The script of the launcher's init container, for a shell and ssh. It waits, for 32 workers at a time, until an ssh
#: login succeeds or is refused by sshd: then the launcher will say more. A worker may wait for a node without end; one
#: that refuses connections for ten minutes may listen at another port.
WAIT = f"""\
reach() {{{{
  refused=0
  until said=$(ssh -o BatchMode=yes -o ConnectTimeout=5 "$1" true 2>&1 </dev/null); do
    [ "$said" = "$last" ] || echo "$1: $said"
    last=$said
    case $said in
      *denied*|*verification*) return;;
      *refused*) refused=$((refused + 1)); [ $refused -lt 600 ] || return;;
    esac
    sleep 1
  done
}}}}
count=0
while IFS=': ' read -r host rest; do
  case $host in {{own}}.*) continue;; esac
  reach "$host" &
  count=$((count + 1))
  [ $((count % 32)) -ne 0 ] || wait
done <{CONFIG}/{HOSTFILE}
wait
"""
#: More bytes than the scripts of the ConfigMap have without the workers.
MARGIN = 4096
#: The default of a batch/v1 Job.
BACKOFF_LIMIT = 6

FIELD = "mpiReplicaSpecs"


class MPIRunPolicySpec(CommonRunPolicySpec):
    """`spec.runPolicy`, where `managedBy` has the name of mpi-operator."""

    managed_by: Literal["kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue"] | None = None


class MPIJobV2Spec(JobSpec):
    """The spec of an MPIJob of v2beta1; the API server stores its defaults, as with mpi-operator's CRD."""

    run_policy: Annotated[MPIRunPolicySpec, null_is({})] = MPIRunPolicySpec()
    slots_per_worker: Annotated[Count, null_is(1)] = 1
    run_launcher_as_worker: Annotated[bool, null_is(default=False)] = False
    ssh_auth_mount_path: Annotated[str, null_is(ROOT)] = ROOT
    launcher_creation_policy: Annotated[Literal["", "AtStartup", "WaitForWorkersReady"], null_is("AtStartup")] = (
        "AtStartup"
    )
    mpi_implementation: Annotated[Literal["OpenMPI", "Intel", "MPICH"], null_is("OpenMPI")] = "OpenMPI"
    mpi_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


RULES = (
    required_role(FIELD, LAUNCHER),
    single_replica(FIELD, LAUNCHER, default=True),
    named_containers(FIELD),
    Rule(
        f"!('Worker' in self.{FIELD}) || self.{FIELD}['Worker'].?replicas.orValue(0) >= 1",
        f"spec.{FIELD}[Worker].replicas: Invalid value: must be greater than or equal to 1",
        lambda job: WORKER not in job.roles or (job.roles[WORKER].replicas or 0) >= 1,
        level=Level.SPEC,
    ),
    Rule(
        "self.?restartPolicy.orValue('') != 'Always'",
        f'spec.{FIELD}[*].restartPolicy: Invalid value: supported values: "Never", "OnFailure", "ExitCode"',
        lambda job: all(group.restart_policy != "Always" for group in job.roles.values()),
        level=Level.REPLICAS,
    ),
)


@dataclass(frozen=True, slots=True)
class MPIJobV2Options:
    """The options of an MPIJob of v2beta1.

    The ssh keys are mounted at `ssh_path`. With `launcher_at_startup` the launcher is created before its workers are
    ready. With `launcher_is_worker` it is a host of ranks itself.
    """

    slots: int = 1
    ssh_path: str = ROOT
    implementation: str = "OpenMPI"
    launcher_at_startup: bool = True
    launcher_is_worker: bool = False


def options(spec: MPIJobV2Spec, _replicas: tuple[ReplicaGroup, ...]) -> MPIJobV2Options:
    """Return the options of a job with this spec."""
    return MPIJobV2Options(
        slots=spec.slots_per_worker or 1,
        ssh_path=spec.ssh_auth_mount_path or ROOT,
        implementation=spec.mpi_implementation,
        launcher_at_startup=spec.launcher_creation_policy != "WaitForWorkersReady",
        launcher_is_worker=spec.run_launcher_as_worker,
    )


def _options(job: Job) -> MPIJobV2Options:
    return job.options_as(MPIJobV2Options)


def ssh_secret_name(job: Job) -> str:
    """Return the name of the Secret with the keys; a hash of the uid sets it apart from an earlier job's."""
    return f"{job.name}-ssh-{hashlib.sha256(job.uid.encode()).hexdigest()[:8]}"


def success_policy(_job: Job) -> SuccessPolicy:
    """Return that the launcher defines success, and that the job is Running while all workers run as well."""
    return SuccessPolicy(LAUNCHER, Quorum.ALL, qualified=True, depends_on=WORKER, require_all_running=True)


def start_after(job: Job, role: str) -> StartOrder | None:
    """Return that the launcher starts after its workers, if `launcherCreationPolicy` is `WaitForWorkersReady`."""
    waits = role == LAUNCHER and not _options(job).launcher_at_startup
    return StartOrder(WORKER, requested=True) if waits else None


def scope(job: Job) -> RestartScope:
    """Return `Job`: ranks start and end together; `Replica` if the launcher polls for hosts, as in elastic Horovod."""
    launcher = job.of(LAUNCHER)
    return RestartScope.REPLICA if launcher and DISCOVER in str(launcher.template.get("spec")) else RestartScope.JOB


def extra_labels(job: Job, replica: Replica) -> tuple[tuple[str, str], ...]:
    """Return mpi-operator's labels; the index is the host's, and the launcher may be host 0."""
    first = 1 if _options(job).launcher_is_worker and replica.role == WORKER else 0
    index = ("training.kubeflow.org/replica-index", str(replica.index + first))
    return (("training.kubeflow.org/job-role", replica.role.lower()), index)


def environment(job: Job, _defaults: JobDefaults) -> Environment:
    """Return the role; for the launcher also the variables by which each MPI finds and enters its hosts."""
    nvidia = (
        () if _options(job).launcher_is_worker else literals(NVIDIA_VISIBLE_DEVICES="", NVIDIA_DRIVER_CAPABILITIES="")
    )
    launcher = (*literals(K_MPI_JOB_ROLE="launcher"), *_implementation_variables(job), *nvidia)
    worker = literals(K_MPI_JOB_ROLE="worker")
    return lambda replica: launcher if replica.role == LAUNCHER else worker


def dependents(job: Job, job_defaults: JobDefaults, pods: PodNames) -> tuple[DesiredDependent, ...]:
    """Return the ConfigMap with the hostfile, and a script that prints the running hosts."""
    own = [f"{job.name}-launcher"] if _options(job).launcher_is_worker else []
    group = job.of(WORKER)
    workers = [f"{job.name}-worker-{index}" for index in range(group.count if group else 0)]
    running = replicas_by_name(job, list(pods.running))
    slots = f" slots={_options(job).slots}" if _options(job).implementation == "OpenMPI" else f":{_options(job).slots}"
    there = [*own, *sorted(name for name in running if running[name].role == WORKER)]
    data = {
        HOSTFILE: "".join(f"{_host(job, job_defaults, pod)}{slots}\n" for pod in (*own, *workers)),
        DISCOVER: "#!/bin/sh\n" + "".join(f"echo {_host(job, job_defaults, pod)}\n" for pod in there),
    }
    return (DesiredDependent(CONFIG_MAPS, f"{job.name}-config", {"data": data}, (("app", job.name),)),)


def validate(job: Job, job_defaults: JobDefaults) -> tuple[str, ...]:
    """Return what keeps the pods or the ConfigMap of a job from being created."""
    group = job.of(WORKER)
    line = f"echo {_host(job, job_defaults, f'{job.name}-{Replica(WORKER, 0)}')} slots={_options(job).slots}\n"
    data = 2 * list_length(line, group.count if group else 0) + MARGIN  # the hostfile, and the script with all workers
    mounts = {role: {m["name"]: m["mountPath"] for m in _mounts(job, Replica(role, 0))} for role in (LAUNCHER, WORKER)}
    twice = (problem for found in job.groups for problem in taken_volumes(found, FIELD, mounts[found.role]))
    same = _options(job).ssh_path == CONFIG and job.of(LAUNCHER) is not None
    keys = ("spec.sshAuthMountPath: Invalid value: must not be the path of the configuration",) if same else ()
    full = tuple(
        f"spec.{FIELD}[{found.role}].template.spec.dnsConfig.searches: Invalid value: has no space for one more domain"
        for found in job.groups
        if has_full_searches(found)
    )
    return (*twice, *keys, *full, *config_map_too_large(job, FIELD, f"{job.name}-config", data))


def mutate_pod_spec(job: Job, job_defaults: JobDefaults) -> PodSpecMutator:
    """Give each pod a host name in the job's domain, and the keys; workers run sshd."""
    domain = f"{job.name}.{job.namespace}.svc.{job_defaults.cluster_domain or 'cluster.local'}"

    def put_on(replica: Replica, spec: dict[str, Any]) -> None:
        first = spec["containers"][0]
        spec.update(hostname=f"{job.name}-{replica}", subdomain=job.name)
        if spec.get("hostNetwork"):
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        # Intel MPI and MPICH use the launcher's short name; the entry points of mpi-operator's images for them wait in
        # each pod, also in the launcher, until DNS has an address of its own short name.
        config = spec.get("dnsConfig") or {}
        spec["dnsConfig"] = {**config, "searches": [*(config.get("searches") or ()), domain]}
        if replica.role == WORKER and not (first.get("command") or first.get("args")):
            first["command"] = ["/usr/sbin/sshd", "-De"]
        volumes = _volumes(job, replica)
        first["volumeMounts"] = [*(first.get("volumeMounts") or ()), *_mounts(job, replica)]
        spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]

    return put_on


def init_containers(job: Job, replica: Replica, job_defaults: JobDefaults) -> tuple[Document, ...]:
    """Return an init container that waits for the workers, if the launcher is created before they are ready."""
    launcher = job.of(LAUNCHER)
    if (
        replica.role != LAUNCHER
        or launcher is None
        or not (_options(job).launcher_at_startup or job_defaults.gang_scheduler or job.grouped)
    ):
        return ()
    first = launcher.template["spec"]["containers"][0]
    same = ("image", "imagePullPolicy")
    script = WAIT.format(own=f"{job.name}-launcher")
    container: dict[str, Any] = {
        "name": "wait-for-workers",
        "command": ["sh", "-c", script],
        "volumeMounts": _mounts(job, replica),
    }
    container["resources"] = first.get("resources") or {}  # ssh to many workers at once needs what the launcher has
    return ({**container, **{part: first[part] for part in same if part in first}},)


def _implementation_variables(job: Job) -> tuple[Variable, ...]:
    """Return mpi-operator's variables, then the names that newer versions read, which the user may override."""
    hosts, slots = f"{CONFIG}/{HOSTFILE}", str(_options(job).slots)
    newer = {}
    match _options(job).implementation:
        case "Intel":
            from_v1 = {"I_MPI_HYDRA_HOST_FILE": hosts, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": SSH_OPTIONS}
            from_v1["I_MPI_PERHOST"] = slots
        case "MPICH":
            from_v1 = {"HYDRA_HOST_FILE": hosts, "HYDRA_LAUNCH_EXTRA_ARGS": SSH_OPTIONS}
            newer = {"HYDRA_LAUNCHER_EXTRA_ARGS": SSH_OPTIONS}
        case _:
            from_v1 = {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": hosts}
            from_v1 |= {"OMPI_MCA_plm_rsh_args": SSH_OPTIONS, "OMPI_MCA_orte_set_default_slots": slots}
            newer = {"PRTE_MCA_prte_default_hostfile": hosts, "PRTE_MCA_plm_ssh_args": SSH_OPTIONS}
    variables = [Variable(name, value) for name, value in from_v1.items()]
    return (*variables, *(Variable(name, value, user_overridable=True) for name, value in newer.items()))


def _host(job: Job, job_defaults: JobDefaults, pod: str) -> str:
    return f"{pod}.{job.name}.{job.namespace}.svc" + (
        f".{job_defaults.cluster_domain}" if job_defaults.cluster_domain else ""
    )


def _volumes(job: Job, replica: Replica) -> list[Document]:
    """Return the volume of the keys; for the launcher also that of its configuration."""
    items = [{"key": key, "path": path} for path, key in FILES.items()]
    mode = {"defaultMode": 0o600} if _options(job).ssh_path == ROOT else {}
    volumes: list[Document] = [
        {"name": "ssh-auth", "secret": {"secretName": ssh_secret_name(job), "items": items, **mode}}
    ]
    if replica.role == LAUNCHER:
        modes = {HOSTFILE: 0o444, DISCOVER: 0o555}
        files = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
        volumes.append({"name": "mpi-job-config", "configMap": {"name": f"{job.name}-config", "items": files}})
    return volumes


def _mounts(job: Job, replica: Replica) -> list[Document]:
    paths = {"ssh-auth": _options(job).ssh_path} | ({"mpi-job-config": CONFIG} if replica.role == LAUNCHER else {})
    return [{"name": name, "mountPath": path} for name, path in paths.items()]


MPI_V2BETA1 = Framework(
    kind="MPIJob",
    version="v2beta1",
    plural="mpijobs",
    label="mpi",
    field=FIELD,
    roles=(LAUNCHER, WORKER),
    spec=MPIJobV2Spec,
    rules=RULES,
    options=options,
    container=FrameworkContainer("mpi", by_name=False, env_in_all_containers=False),
    defaults=Defaults(
        restart_policy=RestartPolicy.NEVER,
        on_failure_by_default=(LAUNCHER,),
        backoff_limit=BACKOFF_LIMIT,
    ),
    in_kueue=True,
    naming=Naming(manager="kubeflow.org/mpi-operator", operator="mpi-operator"),
    objects=Objects(services=False, job_service=True, owns=(CONFIG_MAPS,), retained_roles=(LAUNCHER,)),
    hooks=Hooks(
        success_policy=success_policy,
        is_leader=lambda _job, _replica: False,
        scope=scope,
        environment=environment,
        dependents=dependents,
        start_after=start_after,
        validate=validate,
        init_containers=init_containers,
        mutate_pod_spec=mutate_pod_spec,
        extra_labels=extra_labels,
        ssh_secret_name=ssh_secret_name,
    ),
    age_first=True,
)
