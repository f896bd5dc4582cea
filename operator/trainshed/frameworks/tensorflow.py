"""TensorFlow: every pod learns from TF_CONFIG who the others are and which of them it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache

from trainshed.api.dependent import CONFIG_MAPS, Wish
from trainshed.api.framework import Enough, Environment, Framework, Goal, Variable
from trainshed.api.job import Document, Job, Member, RestartPolicy, Scope
from trainshed.api.kernel import list_length, too_long
from trainshed.api.site import Site

#: Up to so many pods TF_CONFIG is written out in each; above, one ConfigMap holds what they share, and the kubelet
#: puts it together: n pods of n addresses would be n² bytes.
LITERAL_UP_TO = 64
CLUSTER = "TRAINSHED_CLUSTER"


def goal(job: Job) -> Goal | None:
    """The chief decides, by either of its names; without one worker 0 does, or all workers if the user says so."""
    for role in ("Chief", "Master"):
        if job.of(role):
            return Goal(role, Enough.ALL, qualified=True)
    if not job.of("Worker"):
        return None
    enough = Enough.ALL if job.options.success_policy == "AllWorkers" else Enough.FIRST
    return Goal("Worker", enough, qualified=True)


def leads(job: Job, member: Member) -> bool:
    """Every chief, or worker 0 where there is none."""
    if job.of("Chief") or job.of("Master"):
        return member.role in ("Chief", "Master")
    return member == Member("Worker", 0)


def scope(job: Job) -> Scope:
    """With parameter servers a lone newcomer is taken in again; synchronous workers only start together."""
    return Scope.REPLICA if job.of("PS") or job.options.dynamic_workers else Scope.JOB


def environment(job: Job, site: Site) -> Environment:
    """TF_CONFIG, unless the job is a single pod, which needs to know nobody."""
    if job.size == 1:
        return lambda _member: ()
    if job.options.dynamic_workers:
        return lambda member: (Variable("TF_CONFIG", compact(sparse(job, site, member))),)
    common = shared(job, site)
    if common is None:
        text = cluster(job, site)
        return lambda member: (Variable("TF_CONFIG", config(text, member)),)
    source = {"configMapKeyRef": {"name": common.name, "key": CLUSTER}}
    return lambda member: (Variable(CLUSTER, source=source), Variable("TF_CONFIG", config(f"$({CLUSTER})", member)))


def shared(job: Job, site: Site) -> Wish | None:
    """The cluster's addresses, for a job too big to write them out in every pod."""
    if job.size <= LITERAL_UP_TO or job.options.dynamic_workers:
        return None
    text = cluster(job, site)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return Wish(CONFIG_MAPS, f"{job.name}-cluster-{digest}", {"data": {CLUSTER: text}, "immutable": True})


def dependents(job: Job, site: Site, _running: tuple[str, ...]) -> tuple[Wish, ...]:
    """What all pods of a big job read. It never changes: other content has another name."""
    common = shared(job, site)
    return (common,) if common else ()


def refuses(job: Job, site: Site) -> tuple[str, ...]:
    """A TF_CONFIG that no process could be started with."""
    if job.size <= LITERAL_UP_TO or job.options.dynamic_workers:
        return ()
    own = max(len(config("", Member(group.role, group.count - 1))) for group in job.replicas if group.count)
    return too_long(job, TENSORFLOW.field, "TF_CONFIG", cluster_length(job, site) + own)


def expendable(job: Job) -> tuple[str, ...]:
    """Dynamic workers come and go: losing one is no failure of the job."""
    return ("Worker",) if job.options.dynamic_workers else ()


def cluster(job: Job, site: Site) -> str:
    """The addresses of all members by role, roles in alphabetical order, as JSON."""
    groups = ((group.role, group.count, group.port) for group in job.replicas)
    return _cluster(job.name, _domain(job, site), tuple(sorted(groups, key=lambda group: group[0].lower())))


def cluster_length(job: Job, site: Site) -> int:
    """The length of what `cluster` returns."""
    domain = _domain(job, site)
    lists = sum(
        len(compact({group.role.lower(): []}))
        + list_length(compact(_address(job.name, domain, Member(group.role, 0), group.port)), group.count)
        for group in job.replicas
    )
    return lists - len(job.replicas) + 1


@lru_cache(maxsize=64)
def _cluster(name: str, domain: str, groups: tuple[tuple[str, int, int], ...]) -> str:
    """Remembered: every look at a big job asks for it, and it changes when the job is scaled.

    A job with a longer text than a process can be started with is refused before, so that this keeps 8 MiB at the most.
    """
    return compact(
        {
            role.lower(): [_address(name, domain, Member(role, index), port) for index in range(count)]
            for role, count, port in groups
        }
    )


def sparse(job: Job, site: Site, member: Member) -> Document:
    """What one member of a dynamic cluster is told: itself, and a worker all parameter servers."""
    here = address(job, site, member)
    servers: list[str] | None = []
    workers: Mapping[str, str] = {}
    if member.role == "PS":
        servers = [here]
    if member.role == "Worker":
        group = job.of("PS")
        workers = {str(member.index): here}
        servers = [address(job, site, Member("PS", index)) for index in range(group.count)] if group else None
    return {"cluster": {"worker": workers, "ps": servers}, "task": task(member)}


def config(cluster_text: str, member: Member) -> str:
    """TF_CONFIG around a cluster that is text already; byte for byte what v1 writes."""
    return f'{{"cluster":{cluster_text},"task":{compact(task(member))},"environment":"cloud"}}'


def task(member: Member) -> Document:
    """Who a member is."""
    return {"type": member.role.lower(), "index": member.index}


def address(job: Job, site: Site, member: Member) -> str:
    """Host and port of a member, good in every namespace of the cluster."""
    return _address(job.name, _domain(job, site), member, job.port(member.role, TENSORFLOW.port))


def _address(name: str, domain: str, member: Member, port: int) -> str:
    return f"{name}-{member}.{domain}:{port}"


def _domain(job: Job, site: Site) -> str:
    return f"{job.namespace}.svc" + (f".{site.cluster_domain}" if site.cluster_domain else "")


def compact(value: object) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


TENSORFLOW = Framework(
    kind="TFJob",
    plural="tfjobs",
    label="tensorflow",
    field="tfReplicaSpecs",
    roles=("Chief", "Master", "PS", "Worker", "Evaluator"),
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    restart_policy=RestartPolicy.NEVER,
    goal=goal,
    leads=leads,
    scope=scope,
    environment=environment,
    owns=(CONFIG_MAPS,),
    dependents=dependents,
    refuses=refuses,
    expendable=expendable,
    any_case=True,
    everywhere=False,
    epitaph="{kind} {namespace}/{name} has failed because {count} {role} replica(s) failed.",
)
