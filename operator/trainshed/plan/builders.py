"""Builds the bodies, names and labels of pods and Services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainshed.api import gang, objects
from trainshed.api.actions import CreatePod, CreateService, CreateSshSecret
from trainshed.api.framework import (
    Framework,
    JobDefaults,
    Variable,
    child_name,
    job_labels,
    replica_labels,
)
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy
from trainshed.api.objects import JOB_TRACKING_FINALIZER

from . import services

#: With this policy the last log lines of a failure are in the pod's status: no permission to read logs is needed.
TERMINATION_MESSAGE: Document = {"terminationMessagePolicy": "FallbackToLogsOnError"}
#: Builds the pod of a replica, for an attempt of its role.
PodMaker = Callable[[Replica, int], CreatePod]


def pod_maker(framework: Framework, job: Job, job_defaults: JobDefaults) -> PodMaker:
    """Return a function that builds the pods of this job; what they have in common is computed once."""
    variables, dress = (
        framework.hooks.environment(job, job_defaults),
        framework.hooks.mutate_pod_spec(job, job_defaults),
    )
    groups = {group.role: group for group in job.groups}
    scheduler, goal = job_defaults.gang_scheduler, framework.hooks.success_policy(job)
    decides = goal.role if goal and job.track_results else ""
    gang_fields = gang.pod_fields(scheduler, job)

    def make(replica: Replica, attempt: int) -> CreatePod:
        group = groups[replica.role]
        name = child_name(job, replica)
        spec = _spec(framework, group, variables(replica), framework.hooks.init_containers(job, replica, job_defaults))
        dress(replica, spec)
        spec.update(services.host_fields(job, job_defaults, name, spec))
        spec.update({field: value for field, value in gang_fields.items() if not spec.get(field)})
        marks = {
            **gang.pod_annotations(scheduler, job.name, replica.role),
            objects.RESTART_ATTEMPT_ANNOTATION: str(attempt),
            **services.pod_annotations(job),
        } | ({objects.TEMPLATE_HASH_ANNOTATION: group.template_hash} if group.template_hash else {})
        metadata = {
            "name": name,
            "labels": _pod_labels(framework, job, group, replica) | gang.pod_labels(scheduler, job),
            "annotations": _template_metadata(group, "annotations") | marks,
            "ownerReferences": [owner_reference(job)],
        } | ({"finalizers": [JOB_TRACKING_FINALIZER]} if replica.role == decides else {})
        return CreatePod(name, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    return make


def service(framework: Framework, job: Job, replica: Replica) -> CreateService:
    """Return the headless Service of a replica; its DNS name resolves before readiness, which peers depend on."""
    name = child_name(job, replica)
    group = job.of(replica.role)
    labels = replica_labels(framework, job, replica)
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": labels,
        "ports": [{"name": port.name, "port": port.number} for port in (group.ports if group else ())],
    }
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner_reference(job)]}
    return CreateService(name, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def job_service(framework: Framework, job: Job) -> CreateService:
    """Return the headless Service of the whole job; it publishes addresses before the pods are ready."""
    labels = job_labels(framework, job)
    spec: dict[str, Any] = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
    metadata: Document = {"name": job.name, "labels": labels, "ownerReferences": [owner_reference(job)]}
    if framework.objects.job_service:
        metadata = _metadata(framework, job, job.name)
    else:
        spec["ports"] = services.ports(job)
    return CreateService(job.name, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def ssh_secret(framework: Framework, job: Job) -> tuple[CreateSshSecret, ...]:
    """Return the Secret for the ssh keys of the job, if it has any; the keys are generated when it is created."""
    name = framework.hooks.ssh_secret_name(job)
    head = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth"}
    return (CreateSshSecret(name, {**head, "metadata": _metadata(framework, job, name)}),) if name else ()


def _metadata(framework: Framework, job: Job, name: str) -> Document:
    labels = {"app": job.name, **job_labels(framework, job)}
    return {"name": name, "labels": labels, "ownerReferences": [owner_reference(job)]}


def owner_reference(job: Job) -> Document:
    """Return the controller ownerReference, by which the garbage collector and the operator recognise children."""
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod_labels(framework: Framework, job: Job, group: ReplicaGroup, replica: Replica) -> dict[str, str]:
    own = replica_labels(framework, job, replica)
    if framework.hooks.is_leader(job, replica):
        own[objects.JOB_ROLE_LABEL] = "master"
    theirs = {key: value for key, value in _template_metadata(group, "labels").items() if key != objects.JOB_ROLE_LABEL}
    return theirs | own | dict(framework.hooks.extra_labels(job, replica))


def _template_metadata(group: ReplicaGroup, part: str) -> dict[str, str]:
    metadata = group.template.get("metadata") or {}
    return dict(metadata.get(part) or {})


def main_container(framework: Framework, containers: Sequence[Document]) -> Document | None:
    """Return the framework's own container: the one with its name, or the first."""
    named = (
        item for item in containers if framework.container.by_name and item.get("name") == framework.container.name
    )
    return next(named, containers[0] if containers else None)


def _spec(
    framework: Framework, group: ReplicaGroup, variables: tuple[Variable, ...], waits: tuple[Document, ...]
) -> dict[str, Any]:
    spec = dict(group.template.get("spec") or {})
    containers = spec.get("containers") or []
    own = main_container(framework, containers)
    spec["containers"] = [
        _container(container, variables if framework.container.env_in_all_containers or container is own else ())
        for container in containers
    ]
    if own is not None and framework.container.port:
        _open_port(framework, group, spec["containers"][containers.index(own)])
    if inits := [*(spec.get("initContainers") or []), *waits]:
        spec["initContainers"] = [{**TERMINATION_MESSAGE, **container} for container in inits]
    spec["restartPolicy"] = str(group.restart_policy if group.restart_policy.restarts_in_place else RestartPolicy.NEVER)
    return spec


def _container(container: Document, variables: tuple[Variable, ...]) -> dict[str, Any]:
    env = container.get("env") or []
    set_by_user = {entry.get("name") for entry in env}
    own = [
        _entry(variable) for variable in variables if not (variable.user_overridable and variable.name in set_by_user)
    ]
    return {**TERMINATION_MESSAGE, **container} | ({"env": [*env, *own]} if own else {})


def _entry(variable: Variable) -> dict[str, Any]:
    if variable.source is None:
        return {"name": variable.name, "value": variable.value}
    return {"name": variable.name, "valueFrom": variable.source}


def _open_port(framework: Framework, group: ReplicaGroup, container: dict[str, Any]) -> None:
    ports = container.get("ports") or []
    if not any(port.get("name") == framework.container.port_name for port in ports):
        container["ports"] = [*ports, {"name": framework.container.port_name, "containerPort": group.port}]
