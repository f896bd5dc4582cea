"""Builders of jobs, pods and snapshots for unit tests."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from support.replace import replace
from trainshed.api import status_codec
from trainshed.api.actions import ApiRefusal, CreatePod, CreateService, DeletePod, DeleteService, Plan, Snapshot
from trainshed.api.framework import Framework, JobDefaults, own_container
from trainshed.api.job import CleanPodPolicy, Job, Port, ReplicaGroup, RestartPolicy, RestartScope, RunPolicy
from trainshed.api.objects import RESTART_ATTEMPT_ANNOTATION, Container, Phase, Pod, Service
from trainshed.api.parse import ParsedSpec
from trainshed.api.status import ConditionType, Status
from trainshed.controller.store import CachedJob
from trainshed.crd import COLUMNS
from trainshed.frameworks import FRAMEWORKS as ALL
from trainshed.frameworks.pytorch import Elastic, PyTorchJobOptions
from trainshed.plan import plan

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
FRAMEWORKS = {framework.kind: framework for framework in ALL}
ROLES = {
    "chief": "Chief",
    "master": "Master",
    "ps": "PS",
    "worker": "Worker",
    "evaluator": "Evaluator",
    "launcher": "Launcher",
}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def a_job(kind="TFJob", *, restart="Never", name="mnist", options=None, policy=None, scope=None, **rest) -> Job:
    """Return a job with replicas of each role, such as worker=2; `rest` may hold other fields of a Job."""
    framework = FRAMEWORKS[kind]
    groups = [(ROLES[role], rest.pop(role)) for role in list(rest) if role in ROLES]
    template = rest.pop("template", {"spec": {"containers": [{"name": framework.container.name, "image": "x"}]}})
    port = Port(framework.container.port_name, framework.container.port)
    own = own_container(framework.container, template.get("spec", {}).get("containers") or ()).get("name", "")
    replicas = tuple(
        ReplicaGroup(role, count, RestartPolicy(restart), template, (port,), framework.container.port, container=own)
        for role, count in sorted(groups, key=lambda group: framework.roles.index(group[0]))
    )
    fields = {"kind": kind, "namespace": "ml", "name": name, "uid": "job-uid", "version": "1", "generation": 1}
    return Job(
        **fields,
        deleting=False,
        groups=replicas,
        policy=policy or RunPolicy(),
        options=options,
        scope=RestartScope(scope) if scope else None,
        **rest,
    )


def run_policy(**fields) -> RunPolicy:
    """Return a run policy; `clean` is its cleanPodPolicy."""
    clean = CleanPodPolicy(fields.pop("clean", "None"))
    return RunPolicy(clean_pods=clean, **fields)


def elastic(low=1, high=3, **fields) -> PyTorchJobOptions:
    return PyTorchJobOptions(nproc_per_node="auto", elastic=Elastic(low, high, **fields))


def cached(job: Job, status: Status | None = None) -> CachedJob:
    return CachedJob(job, status or Status(), ParsedSpec(job.policy, job.groups))


def creation_of(body: dict) -> CreatePod:
    """Return the creation of a pod with this body."""
    owners = body["metadata"]["ownerReferences"]
    owner = next((reference["uid"] for reference in owners if reference.get("controller")), "")
    attempt = int(body["metadata"].get("annotations", {}).get(RESTART_ATTEMPT_ANNOTATION, "0"))
    return CreatePod(body["metadata"]["name"], owner, lambda: body, attempt)


def a_pod(replica, phase="Running", *, job="mnist", attempt=0, code=None, ended=0.0, uid="", **fields) -> Pod:
    """Return the pod of a replica such as `worker-1`; its one container exited with `code` at `ended`."""
    role, _, index = replica.rpartition("-") if "-" in replica else (replica, "", "-1")
    container = Container(
        fields.pop("container", "tensorflow"),
        exit_code=code,
        started=at(fields.pop("started", 0.0)),
        finished=at(ended) if code is not None else None,
        message=fields.pop("words", ""),
        restarts=fields.pop("restarted", 0),
        reason=fields.pop("why", ""),
    )
    containers = fields.pop("containers", (container,))
    known = {
        "name": f"{job}-{replica}",
        "uid": uid or f"{replica}-uid",
        "version": "1",
        "owner": "job-uid",
        "namespace": "ml",
    }
    return Pod(
        **known,
        job=job,
        role=role,
        index=int(index),
        attempt=attempt,
        phase=Phase(phase),
        containers=containers,
        **fields,
    )


def a_service(replica, job="mnist") -> Service:
    role, _, index = replica.rpartition("-") if "-" in replica else (replica, "", "-1")
    return Service(f"{job}-{replica}", f"{replica}-svc", "1", "job-uid", "ml", job, role, int(index))


def seen(
    job: Job,
    *pods: Pod,
    status: Status | None = None,
    services=None,
    now=T0,
    refusal=None,
    job_defaults=None,
    training=None,
) -> Snapshot:
    """Return a snapshot; by default with all Services."""
    there = tuple(a_service(str(replica), job.name) for replica in job.all_replicas) if services is None else services
    framework: Framework = FRAMEWORKS[job.kind]
    refusal = ApiRefusal(*refusal) if refusal else None
    snapshot = Snapshot(job, framework, job_defaults or JobDefaults(), status or Status(), pods, there, now, refusal)
    return replace(snapshot, training=training) if training else snapshot


def plan_for(job: Job, *pods: Pod, **fields) -> Plan:
    return plan(seen(job, *pods, **fields))


def running(job: Job, *, now=T0) -> Status:
    pods = [
        a_pod(str(replica), job=job.name, container=FRAMEWORKS[job.kind].container.name) for replica in job.all_replicas
    ]
    return plan_for(job, *pods, now=now).status


def pods_of(job: Job, *others: Pod, attempt=0) -> list[Pod]:
    """Return a running pod for each replica, except those that are given."""
    container = FRAMEWORKS[job.kind].container.name
    mine = {
        f"{job.name}-{replica}": a_pod(str(replica), job=job.name, attempt=attempt, container=container)
        for replica in job.all_replicas
    }
    return list((mine | {pod.name: pod for pod in others}).values())


def states(status: Status) -> list[str]:
    """Return the conditions as short texts: `Created`, or `-Running` for one that is false."""
    return [("" if condition.true else "-") + str(condition.type) for condition in status.conditions]


def message(status: Status, kind: str) -> str:
    condition = status.condition(ConditionType(kind))
    assert condition is not None, states(status)
    return condition.message


def made(decision: Plan) -> list[str]:
    """Return the names of the pods to create."""
    return [action.name for action in decision.actions if isinstance(action, CreatePod)]


def deleted(decision: Plan) -> list[str]:
    """Return the names of the pods to delete."""
    return [action.name for action in decision.actions if isinstance(action, DeletePod)]


def services(decision: Plan, what=CreateService) -> list[str]:
    """Return the names of the Services to create, or with DeleteService to delete."""
    return [action.name for action in decision.actions if isinstance(action, what)]


def event_reasons(decision: Plan) -> list[str]:
    return [event.reason for event in decision.events]


def _column(document: dict, path: str) -> object:
    """Return the value of a printer column, as the API server computes it."""
    value = document
    for name, kind in re.findall(r'\.(\w+)(?:\[\?\(@\.type=="(\w+)"\)\])?', path):
        value = value.get(name, {})
        value = next((item for item in value if item["type"] == kind), {}) if kind else value
    return value if value != {} else ""


def printed(decision: Plan, job: Job | None = None) -> dict[str, object]:
    """Return the columns of `kubectl get -o wide` without the age; READY needs the job."""
    document = {"status": status_codec.status_patch(job or a_job(worker=1), Status(), decision.status)["status"]}
    return {name: _column(document, path) for name, _, path, _ in COLUMNS if name != "Age"}


__all__ = ["DeleteService", "replace"]
