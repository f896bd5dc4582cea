"""TFJob: TF_CONFIG holds the addresses of all replicas, and the role and index of the pod."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

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
    Quorum,
    SuccessPolicy,
    Variable,
)
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy, RestartScope, ServiceForm
from trainshed.api.objects import CONFIG_MAPS, DesiredDependent
from trainshed.api.spec import JobSpec, Level, ReplicaSpec, Rule, RunPolicyField, RunPolicySpec
from trainshed.api.validation import list_length, variable_too_long

#: Up to this number of replicas, each pod has the whole TF_CONFIG. Above it, one ConfigMap holds the addresses, and the
#: kubelet expands a reference to them: n pods with n addresses each would take n² bytes.
LITERAL_UP_TO = 64
CLUSTER = "TRAINSHED_CLUSTER"
FIELD = "tfReplicaSpecs"
PORT = 2222
#: One encoder for all jobs: making one takes longer than writing the addresses of a small job.
COMPACT = json.JSONEncoder(separators=(",", ":"))


class TFJobSpec(JobSpec):
    """The spec of a TFJob."""

    run_policy: RunPolicyField = RunPolicySpec()
    success_policy: Literal["", "AllWorkers"] | None = None
    enable_dynamic_worker: bool | None = None
    tf_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=5)]


RULES = (
    Rule(
        "self.all(r, self.exists_one(s, s.lowerAscii() == r.lowerAscii()))",
        f"spec.{FIELD}: Invalid value: a replica type must not appear twice in different cases",
        lambda job: len({role.lower() for role in job.roles}) == len(job.roles),
        level=Level.ROLES,
    ),
    Rule(
        "!(self.exists(r, r.lowerAscii() == 'chief') && self.exists(r, r.lowerAscii() == 'master'))",
        f"spec.{FIELD}: Forbidden: must not have more than 1 Chief or Master role",
        lambda job: not {"chief", "master"} <= {role.lower() for role in job.roles},
        level=Level.ROLES,
    ),
)


@dataclass(frozen=True, slots=True)
class TFJobOptions:
    """The options of a TFJob."""

    success_policy: str = ""
    dynamic_workers: bool = False


def options(spec: TFJobSpec, _replicas: tuple[ReplicaGroup, ...]) -> TFJobOptions:
    """Return the options of a job with this spec."""
    return TFJobOptions(spec.success_policy or "", dynamic_workers=bool(spec.enable_dynamic_worker))


def _dynamic(job: Job) -> bool:
    return job.options_as(TFJobOptions).dynamic_workers


def success_policy(job: Job) -> SuccessPolicy | None:
    """Return that the chief (or master) defines success; without one, worker 0, or with `AllWorkers` all workers."""
    for role in ("Chief", "Master"):
        if job.of(role):
            return SuccessPolicy(role, Quorum.ALL, qualified=True)
    if not job.of("Worker"):
        return None
    enough = Quorum.ALL if job.options_as(TFJobOptions).success_policy == "AllWorkers" else Quorum.FIRST
    return SuccessPolicy("Worker", enough, qualified=True)


def is_leader(job: Job, replica: Replica) -> bool:
    """Return whether the replica is a chief, or worker 0 in a job without chief."""
    if job.of("Chief") or job.of("Master"):
        return replica.role in ("Chief", "Master")
    return replica == Replica("Worker", 0)


def scope(job: Job) -> RestartScope:
    """Return `Replica` with parameter servers: a restarted pod can rejoin; synchronous workers start together."""
    return RestartScope.REPLICA if job.of("PS") or _dynamic(job) else RestartScope.JOB


def environment(job: Job, job_defaults: JobDefaults) -> Environment:
    """Return TF_CONFIG; a job with a single replica does not need it."""
    if job.size == 1:
        return lambda _replica: ()
    if _dynamic(job):
        return lambda replica: (Variable("TF_CONFIG", compact(sparse(job, job_defaults, replica))),)
    common = shared(job, job_defaults)
    if common is None:
        text = cluster(job, job_defaults)
        return lambda replica: (Variable("TF_CONFIG", config(text, replica)),)
    source = {"configMapKeyRef": {"name": common.name, "key": CLUSTER}}
    return lambda replica: (Variable(CLUSTER, source=source), Variable("TF_CONFIG", config(f"$({CLUSTER})", replica)))


def shared(job: Job, job_defaults: JobDefaults) -> DesiredDependent | None:
    """Return the ConfigMap with the addresses, if the job has too many replicas for a TF_CONFIG in each pod."""
    if job.size <= LITERAL_UP_TO or _dynamic(job):
        return None
    text = cluster(job, job_defaults)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return DesiredDependent(CONFIG_MAPS, f"{job.name}-cluster-{digest}", {"data": {CLUSTER: text}, "immutable": True})


def dependents(job: Job, job_defaults: JobDefaults, _pods: PodNames) -> tuple[DesiredDependent, ...]:
    """Return the ConfigMap of a large job. It is immutable: its name contains the hash of its content."""
    common = shared(job, job_defaults)
    return (common,) if common else ()


def validate(job: Job, job_defaults: JobDefaults) -> tuple[str, ...]:
    """Return a problem if TF_CONFIG is too long for an environment variable."""
    if job.size <= LITERAL_UP_TO or _dynamic(job):
        return ()
    own = max(len(config("", Replica(group.role, group.count - 1))) for group in job.groups if group.count)
    return variable_too_long(job, FIELD, "TF_CONFIG", cluster_length(job, job_defaults) + own)


def optional_roles(job: Job) -> tuple[str, ...]:
    """Return the roles that may lose replicas: dynamic workers may leave at any time."""
    return ("Worker",) if _dynamic(job) else ()


def cluster(job: Job, job_defaults: JobDefaults) -> str:
    """Return the addresses of all replicas by role as JSON, roles in alphabetical order."""
    groups = ((group.role, group.count, group.port) for group in job.groups)
    return _cluster(job.name, _domain(job, job_defaults), tuple(sorted(groups, key=lambda group: group[0].lower())))


def cluster_length(job: Job, job_defaults: JobDefaults) -> int:
    """Return the length of the result of `cluster`, without building it."""
    domain = _domain(job, job_defaults)
    lists = sum(
        len(compact({group.role.lower(): []}))
        + list_length(compact(_address(job.name, domain, Replica(group.role, 0), group.port)), group.count)
        for group in job.groups
    )
    return lists - len(job.groups) + 1


@lru_cache(maxsize=64)
def _cluster(name: str, domain: str, groups: tuple[tuple[str, int, int], ...]) -> str:
    """Return the addresses; cached, because each reconcile needs them and they change only with the job's size.

    The cache holds at most 8 MiB, because `validate` rejects jobs whose text exceeds an environment variable.
    """
    return compact(
        {
            role.lower(): [_address(name, domain, Replica(role, index), port) for index in range(count)]
            for role, count, port in groups
        }
    )


def sparse(job: Job, job_defaults: JobDefaults, replica: Replica) -> Document:
    """Return the cluster for a replica with dynamic workers: itself, and for a worker all parameter servers."""
    here = address(job, job_defaults, replica)
    servers: list[str] | None = []
    workers: Mapping[str, str] = {}
    if replica.role == "PS":
        servers = [here]
    if replica.role == "Worker":
        group = job.of("PS")
        workers = {str(replica.index): here}
        servers = [address(job, job_defaults, Replica("PS", index)) for index in range(group.count)] if group else None
    task = {"type": replica.role.lower(), "index": replica.index}
    return {"cluster": {"worker": workers, "ps": servers}, "task": task}


def config(cluster_text: str, replica: Replica) -> str:
    """Return TF_CONFIG with this cluster; the same bytes as v1's."""
    task_text = f'{{"type":"{replica.role.lower()}","index":{replica.index}}}'
    return f'{{"cluster":{cluster_text},"task":{task_text},"environment":"cloud"}}'


def address(job: Job, job_defaults: JobDefaults, replica: Replica) -> str:
    """Return host and port of a replica, valid in every namespace of the cluster."""
    return _address(job.name, _domain(job, job_defaults), replica, job.port(replica.role, PORT))


def _address(name: str, domain: str, replica: Replica, port: int) -> str:
    return f"{name}-{replica}.{domain}:{port}"


def _domain(job: Job, job_defaults: JobDefaults) -> str:
    parts = (job.name if job.services is ServiceForm.JOB else "", job.namespace, "svc", job_defaults.cluster_domain)
    return ".".join(part for part in parts if part)


def compact(value: object) -> str:
    """Return JSON without spaces."""
    return COMPACT.encode(value)


TENSORFLOW = Framework(
    kind="TFJob",
    plural="tfjobs",
    label="tensorflow",
    field=FIELD,
    roles=("Chief", "Master", "PS", "Worker", "Evaluator"),
    case_insensitive=True,
    spec=TFJobSpec,
    rules=RULES,
    options=options,
    container=FrameworkContainer("tensorflow", "tfjob-port", PORT, env_in_all_containers=False),
    defaults=Defaults(restart_policy=RestartPolicy.NEVER),
    naming=Naming(failure_message="{kind} {namespace}/{name} has failed because {count} {role} replica(s) failed."),
    objects=Objects(owns=(CONFIG_MAPS,)),
    hooks=Hooks(
        success_policy=success_policy,
        is_leader=is_leader,
        optional_roles=optional_roles,
        scope=scope,
        environment=environment,
        validate=validate,
        dependents=dependents,
    ),
)
