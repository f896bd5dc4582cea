"""PyTorchJob: the variables of env:// and torchrun, elastic jobs with their autoscaler, and v1's init container."""

from __future__ import annotations

import re
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
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy, RestartScope, packed
from trainshed.api.objects import AUTOSCALERS, DesiredDependent
from trainshed.api.spec import (
    Count,
    Elasticity,
    JobSpec,
    Level,
    Model,
    PortNumber,
    ReplicaSpec,
    Rule,
    RunPolicyField,
    RunPolicySpec,
    UpdateRule,
    ValidationInput,
    replica_count,
)
from trainshed.api.validation import single_replica
from trainshed.manifests import reader
from trainshed.manifests.nodes import BadManifest

#: v1's template variables. The language is Go's text/template; only variables and comments of it are supported.
TEMPLATE_VARIABLES = ("MasterAddr", "InitContainerImage", "MaxTries")
_ACTION = re.compile(r"(\s*\{\{-\s|\{\{)\s*(.*?)\s*(\s-\}\}\s*|\}\})", re.DOTALL)


class BadTemplate(ValueError):
    """The file is not a template that v1 would accept; the message has the reason."""


@lru_cache(maxsize=64)
def init_containers_from_template(text: str, values: tuple[str, str, str]) -> tuple[Document, ...]:
    """Return the init containers of the template `text`, with `values` for `TEMPLATE_VARIABLES`.

    Raises `BadTemplate`.
    """
    known = dict(zip(TEMPLATE_VARIABLES, values, strict=True))
    try:
        found = reader.document(_ACTION.sub(lambda action: _template_value(known, action[2]), text), unique=False)
    except BadManifest as error:
        raise BadTemplate(f"not YAML: {error}") from error
    if not isinstance(found, list) or not all(isinstance(item, dict) and "name" in item for item in found):
        raise BadTemplate("not a list of containers, each with a name")
    return tuple(found)


def _template_value(known: dict[str, str], action: str) -> str:
    if action.startswith("/*"):
        return ""
    word = action.removeprefix(".")
    if word == action or word not in known:
        listed = ", ".join(f"{{{{.{word}}}}}" for word in TEMPLATE_VARIABLES)
        raise BadTemplate(f"{{{{{action}}}}} is not supported; the variables are {listed}")
    return known[word]


#: v1's script, in which workers wait until the master's name resolves. It is optional, because torch itself waits.
#: v1's resources of the init container, for workers that have none.
WAITING_NEEDS = {
    "limits": {"cpu": "100m", "memory": "20Mi"},
    "requests": {"cpu": "50m", "memory": "10Mi"},
}
WAIT = (
    "tries={tries}; until nslookup {host}; do tries=$((tries - 1)); "
    "[ $tries -gt 0 ] || exit 1; echo waiting for {host}; sleep 2; done"
)
FIELD = "pytorchReplicaSpecs"
#: The backend with which torchrun takes rank, address and number of nodes as they are given.
STATIC = "static"
PORT = 23456


class RendezvousConf(Model):
    """An additional setting of torchrun's rendezvous."""

    key: str | None = None
    value: str | None = None


class ElasticPolicy(Elasticity):
    """`spec.elasticPolicy` of a PyTorchJob."""

    rdzv_backend: Literal["", "c10d", "etcd", "etcd-v2", "static"] | None = None
    rdzv_port: PortNumber | None = None
    rdzv_host: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: Annotated[list[RendezvousConf], Field(max_length=256)] | None = None
    standalone: bool | None = None
    n_proc_per_node: Count | None = None


class PyTorchJobSpec(JobSpec):
    """The spec of a PyTorchJob."""

    run_policy: RunPolicyField = RunPolicySpec()
    elastic_policy: ElasticPolicy | None = None
    nproc_per_node: Annotated[str, Field(max_length=16)] | None = None
    pytorch_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


def _elastic(job: ValidationInput) -> ElasticPolicy | None:
    policy: ElasticPolicy | None = job.spec.elastic_policy
    return policy


def _bounds_in_order(job: ValidationInput) -> bool:
    policy = _elastic(job)
    least, most = (policy.min_replicas, policy.max_replicas) if policy else (None, None)
    return least is None or most is None or least <= most


def _processes_given_twice(job: ValidationInput) -> bool:
    policy = _elastic(job)
    return policy is not None and policy.n_proc_per_node is not None and job.spec.nproc_per_node is not None


RULES = (
    single_replica(FIELD, "Master", default=False),
    Rule(
        f"!('Worker' in self.{FIELD}) || self.{FIELD}['Worker'].?replicas.orValue(1) >= 1",
        f"spec.{FIELD}[Worker].replicas: Forbidden: must be at least 1",
        lambda job: "Worker" not in job.roles or replica_count(job.roles["Worker"]) >= 1,
        level=Level.SPEC,
    ),
    Rule(
        f"!has(self.elasticPolicy) || 'Worker' in self.{FIELD}",
        f"spec.{FIELD}[Worker]: Required value: must be configured if elastic policy is used",
        lambda job: _elastic(job) is None or "Worker" in job.roles,
        level=Level.SPEC,
    ),
    Rule(
        "!(has(self.elasticPolicy) && has(self.elasticPolicy.minReplicas) && has(self.elasticPolicy.maxReplicas))"
        " || self.elasticPolicy.minReplicas <= self.elasticPolicy.maxReplicas",
        "spec.elasticPolicy.minReplicas: Invalid value: must be no more than maxReplicas",
        _bounds_in_order,
        level=Level.SPEC,
    ),
    Rule(
        "!(has(self.nprocPerNode) && has(self.elasticPolicy) && has(self.elasticPolicy.nProcPerNode))",
        "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
        lambda job: not _processes_given_twice(job),
        level=Level.SPEC,
    ),
)

#: A job may be created with any number of workers, as in v1. Only a change of the number has to keep the bounds.
SCALED, SCALED_FROM = f"self.{FIELD}['Worker'].replicas", f"oldSelf.{FIELD}['Worker'].replicas"
UPDATE_RULES = (
    UpdateRule(
        f"!has(self.elasticPolicy) || !('Worker' in self.{FIELD}) || !has({SCALED})"
        f" || !('Worker' in oldSelf.{FIELD}) || (has({SCALED_FROM}) && {SCALED_FROM} == {SCALED})"
        f" || ((!has(self.elasticPolicy.minReplicas) || {SCALED} >= self.elasticPolicy.minReplicas)"
        f" && (!has(self.elasticPolicy.maxReplicas) || {SCALED} <= self.elasticPolicy.maxReplicas))",
        f"spec.{FIELD}[Worker].replicas: Invalid value: must be from minReplicas to maxReplicas of spec.elasticPolicy",
    ),
)


@dataclass(frozen=True, slots=True)
class Elastic:
    """The elastic policy with its defaults.

    `rdzv_conf` holds pairs in the order of the spec, `metrics` those of the autoscaler, unchanged.
    """

    minimum: int
    maximum: int
    backend: str | None = None
    host: str | None = None
    port: int | None = None
    rdzv_id: str | None = None
    rdzv_conf: tuple[tuple[str, str], ...] = ()
    standalone: bool = False
    nproc_per_node: int | None = None
    max_restarts: int | None = None
    metrics: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class PyTorchJobOptions:
    """The options of a PyTorchJob; `elastic` is None without an elastic policy."""

    nproc_per_node: str | None = None
    elastic: Elastic | None = None


def options(spec: PyTorchJobSpec, replicas: tuple[ReplicaGroup, ...]) -> PyTorchJobOptions:
    """Return the options of a job with this spec; v1 sets `nprocPerNode` to `auto` if neither field is given."""
    policy = spec.elastic_policy
    per_node = spec.nproc_per_node
    if per_node is None and (policy is None or policy.n_proc_per_node is None):
        per_node = "auto"
    return PyTorchJobOptions(per_node, _elastic_options(policy, replicas) if policy else None)


def _elastic_options(policy: ElasticPolicy, replicas: tuple[ReplicaGroup, ...]) -> Elastic:
    workers = next((group.count for group in replicas if group.role == "Worker"), 1)
    bounds = [bound for bound in (policy.min_replicas, policy.max_replicas) if bound is not None] or [workers]
    return Elastic(
        minimum=bounds[0],
        maximum=bounds[-1],
        backend=policy.rdzv_backend or None,
        host=policy.rdzv_host,
        port=policy.rdzv_port,
        rdzv_id=policy.rdzv_id,
        rdzv_conf=tuple((pair.key or "", pair.value or "") for pair in policy.rdzv_conf or ()),
        standalone=bool(policy.standalone),
        nproc_per_node=policy.n_proc_per_node,
        max_restarts=policy.max_restarts,
        metrics=packed(policy.metrics or ()),
    )


def success_policy(job: Job) -> SuccessPolicy | None:
    """Return that the master defines success; without one, all workers do, or any worker of an elastic job."""
    if job.of("Master"):
        return SuccessPolicy("Master", Quorum.ALL, qualified=False)
    if not job.of("Worker"):
        return None
    return SuccessPolicy(
        "Worker", Quorum.ANY if job.options_as(PyTorchJobOptions).elastic else Quorum.ALL, qualified=True
    )


def leader(job: Job) -> str:
    """Return the role whose replica 0 is rank 0."""
    return "Master" if job.of("Master") else "Worker"


def is_leader(job: Job, replica: Replica) -> bool:
    """Return whether the replica is rank 0."""
    return replica == Replica(leader(job), 0)


def scope(job: Job) -> RestartScope:
    """Return `Replica` for an elastic job, which a restarted pod can rejoin; other process groups start together.

    So do those of the static rendezvous: with it, replicas that restart alone can wait for each other without end.
    """
    elastic = job.options_as(PyTorchJobOptions).elastic
    return RestartScope.REPLICA if elastic and elastic.backend != STATIC else RestartScope.JOB


def environment(job: Job, _defaults: JobDefaults) -> Environment:
    """Return the variables of `env://` and torchrun, in v1's order."""
    elastic = job.options_as(PyTorchJobOptions).elastic
    rendezvous = rendezvous_variables(job, elastic) if elastic else (Variable("PET_NNODES", str(job.size)),)
    nproc = job.options_as(PyTorchJobOptions).nproc_per_node
    per_node = (Variable("PET_NPROC_PER_NODE", nproc),) if nproc else ()
    first, address = leader(job), rank_zero(job)
    head, tail = (Variable("PYTHONUNBUFFERED", "1"), *address), (*per_node, *rendezvous)

    def variables(replica: Replica) -> tuple[Variable, ...]:
        rank = str(replica.index + (1 if replica.role != first else 0))
        own = (Variable("RANK", rank), Variable("PET_NODE_RANK", rank)) if address else ()
        return (*head, *own, *tail)

    return variables


def rank_zero(job: Job) -> tuple[Variable, ...]:
    """Return the address of rank 0; in an elastic job without master, torchrun determines it, and the ranks."""
    first = leader(job)
    group = job.of(first)
    elastic = job.options_as(PyTorchJobOptions).elastic
    if group is None or (first == "Worker" and elastic and elastic.backend != STATIC):
        return ()
    nproc = job.options_as(PyTorchJobOptions).nproc_per_node or ""
    world = job.size * (int(nproc) if nproc.isdecimal() else 1)
    host = f"{job.name}-{first.lower()}-0"
    return (
        Variable("MASTER_PORT", str(group.port)),
        Variable("PET_MASTER_PORT", str(group.port)),
        Variable("MASTER_ADDR", host),
        Variable("PET_MASTER_ADDR", host),
        Variable("WORLD_SIZE", str(world)),
    )


def rendezvous_variables(job: Job, elastic: Elastic) -> tuple[Variable, ...]:
    """Return the rendezvous of an elastic job, and the bounds of its number of nodes.

    The static rendezvous listens in the pod of rank 0, and takes the most nodes for their number.
    """
    static = elastic.backend == STATIC
    host_role = leader(job) if static else "Worker"
    group = job.of(host_role)
    port = elastic.port or (group.port if group else PORT)
    host = elastic.host or f"{job.name}-{host_role.lower()}-0"
    wanted = (
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", elastic.backend or "c10d"),
        ("PET_NNODES", job.size if static else f"{elastic.minimum}:{elastic.maximum}"),
        ("PET_MAX_RESTARTS", elastic.max_restarts),
        ("PET_NPROC_PER_NODE", elastic.nproc_per_node),
        ("PET_RDZV_ID", elastic.rdzv_id),
        ("PET_RDZV_CONF", ",".join(f"{key}={value}" for key, value in elastic.rdzv_conf) or None),
        ("PET_STANDALONE", "" if elastic.standalone else None),
    )
    # Since torch 2.4, a node that joins a later rendezvous round waits for an address that only the first round
    # published; its timeout fails the whole job (pytorch issue 135712). A separate store for each round avoids that.
    cure = Variable("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", user_overridable=True)
    variables = tuple(Variable(name, str(value)) for name, value in wanted if value is not None)
    return variables if static else (*variables, cure)


def dependents(job: Job, _defaults: JobDefaults, _pods: PodNames) -> tuple[DesiredDependent, ...]:
    """Return v1's HorizontalPodAutoscaler, for an elastic job with metrics."""
    elastic = job.options_as(PyTorchJobOptions).elastic
    if elastic is None or not elastic.metrics or not elastic.maximum:
        return ()
    # The server accepts 0 replicas only with a metric that does not come from the pods.
    from_pods = not any(metric.get("type") in ("Object", "External") for metric in elastic.metrics)
    spec = {
        "scaleTargetRef": {"apiVersion": job.api_version, "kind": job.kind, "name": job.name},
        "minReplicas": max(elastic.minimum, 1) if from_pods else elastic.minimum,
        "maxReplicas": elastic.maximum,
        "metrics": [dict(metric) for metric in elastic.metrics],
        "behavior": None,  # a job has no field for it, and a manual change is removed: v1's rule
    }
    return (DesiredDependent(AUTOSCALERS, job.name, {"spec": spec}),)


def _has_resources(job: Job) -> bool:
    """Return whether a container of the workers has requests or limits, which fit the namespace."""
    group = job.of("Worker")
    containers = (group.template.get("spec") or {}).get("containers") or () if group else ()
    return any(container.get("resources") for container in containers)


def init_containers(job: Job, replica: Replica, job_defaults: JobDefaults) -> tuple[Document, ...]:
    """Return v1's init container for workers, if the operator is configured with an image for it."""
    if not (job_defaults.init_image and job.of("Master") and replica.role == "Worker"):
        return ()
    host = f"{job.name}-master-0"
    if job_defaults.init_template:
        return init_containers_from_template(
            job_defaults.init_template, (host, job_defaults.init_image, str(job_defaults.init_tries))
        )
    script = WAIT.format(tries=job_defaults.init_tries, host=host)
    return (
        {
            "name": "init-pytorch",
            "image": job_defaults.init_image,
            "imagePullPolicy": "IfNotPresent",
            **({} if job_defaults.init_resources or _has_resources(job) else {"resources": WAITING_NEEDS}),
            "command": ["sh", "-c", script],
        },
    )


PYTORCH = Framework(
    kind="PyTorchJob",
    plural="pytorchjobs",
    label="pytorch",
    field=FIELD,
    roles=("Master", "Worker"),
    spec=PyTorchJobSpec,
    rules=RULES,
    update_rules=UPDATE_RULES,
    options=options,
    container=FrameworkContainer("pytorch", "pytorchjob-port", PORT),
    defaults=Defaults(restart_policy=RestartPolicy.ON_FAILURE),
    naming=Naming(ttl_event_reason="SuccessfulDeletePod"),
    objects=Objects(owns=(AUTOSCALERS,)),
    hooks=Hooks(
        success_policy=success_policy,
        is_leader=is_leader,
        scope=scope,
        environment=environment,
        dependents=dependents,
        init_containers=init_containers,
    ),
    selectors=True,
)
