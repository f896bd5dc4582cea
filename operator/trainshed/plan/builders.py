"""Builds the bodies, names and labels of pods and Services."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from trainshed.api import gang, kueue_groups, objects, ports
from trainshed.api.actions import CreatePod, CreateService, CreateSshSecret
from trainshed.api.framework import (
    Framework,
    JobDefaults,
    Variable,
    child_name,
    index_label,
    job_labels,
    own_container,
    role_labels,
)
from trainshed.api.job import Document, Job, Replica, ReplicaGroup, RestartPolicy
from trainshed.api.objects import JOB_TRACKING_FINALIZER

from . import init_containers, reporting_pods, services

#: With this policy the last log lines of a failure are in the pod's status: no permission to read logs is needed.
TERMINATION_MESSAGE: Document = {"terminationMessagePolicy": "FallbackToLogsOnError"}
#: The field of an affinity with what a scheduler prefers.
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: Builds the pod of a replica, for an attempt of its role.
PodMaker = Callable[[Replica, int], CreatePod]


def pod_maker(
    framework: Framework, job: Job, job_defaults: JobDefaults, avoided_nodes: tuple[str, ...] = (), group_name: str = ""
) -> PodMaker:
    """Return a function that builds the pods of this job, which prefer other nodes than these.

    A job whose pods Kueue admits as a group needs the name of the group.

    What they have in common is computed once, without what the templates have: it is read when a body is built.
    """
    variables, dress = (
        framework.hooks.environment(job, job_defaults),
        framework.hooks.mutate_pod_spec(job, job_defaults),
    )
    common = {group.role: _common_metadata(framework, job, group, job_defaults) for group in job.groups}
    groups, queue_labels = {group.role: group for group in job.groups}, kueue_groups.pod_labels(job, group_name)
    gang_fields = gang.pod_fields(job_defaults.gang_scheduler, job)
    defaults, reports = dict(job_defaults.pod_annotations), reporting_pods.reports(job, job_defaults)

    def make(replica: Replica, attempt: int) -> CreatePod:
        name = child_name(job, replica)
        return CreatePod(name, job.uid, partial(build, name, replica, attempt), attempt)

    def build(name: str, replica: Replica, attempt: int) -> Document:
        shared, group = common[replica.role], groups[replica.role]
        added = framework.hooks.init_containers(job, replica, job_defaults)
        spec = _spec(framework, group, variables(replica), (added, job_defaults.init_resources))
        dress(replica, spec)
        spec.update(services.host_fields(job, job_defaults, name, spec))
        if job.checkpoint_grace is not None:
            spec.update(_grace(job.checkpoint_grace, spec))
        if avoided_nodes:
            spec["affinity"] = _away_from(avoided_nodes, spec.get("affinity") or {})
        if reports:
            reporting_pods.equip(framework, job, job_defaults, spec)
        spec.update({field: value for field, value in gang_fields.items() if not spec.get(field)})
        if group_name:
            spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), kueue_groups.GATE]
        labels, annotations = _template_metadata(group)
        metadata = {
            **shared,
            "name": name,
            "labels": {**labels, **queue_labels, **shared["labels"], **_own_labels(framework, job, replica)},
            "annotations": {
                **defaults,
                **annotations,
                **shared["annotations"],
                objects.RESTART_ATTEMPT_ANNOTATION: str(attempt),
            },
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    return make


def _common_metadata(framework: Framework, job: Job, group: ReplicaGroup, job_defaults: JobDefaults) -> Document:
    """Return the metadata that all pods of a role have besides those of the template."""
    scheduler = job_defaults.gang_scheduler
    marks = {
        **gang.pod_annotations(scheduler, job.name, group.role),
        **services.pod_annotations(job),
        **kueue_groups.pod_annotations(job, group),
        **({objects.TEMPLATE_HASH_ANNOTATION: group.template_hash} if group.template_hash else {}),
    }
    goal = framework.hooks.success_policy(job) if job.track_results else None
    tracked = goal is not None and group.role == goal.role
    return {
        "labels": {**role_labels(framework, job, group.role), **gang.pod_labels(scheduler, job)},
        "annotations": marks,
        "ownerReferences": [owner_reference(job)],
        **({"finalizers": [JOB_TRACKING_FINALIZER]} if tracked else {}),
    }


def service_maker(framework: Framework, job: Job) -> Callable[[Replica], CreateService]:
    """Return a function that builds the headless Services of the replicas.

    Their DNS names resolve before readiness, which peers depend on.
    """
    shared = {group.role: role_labels(framework, job, group.role) for group in job.groups}
    published = {group.role: ports.published({group.role: group.ports}) for group in job.groups}
    owners = [owner_reference(job)]

    def make(replica: Replica) -> CreateService:
        name, labels = child_name(job, replica), {**shared[replica.role], **index_label(replica)}
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": published[replica.role],
        }
        metadata = {"name": name, "labels": labels, "ownerReferences": owners}
        return CreateService(name, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    return make


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


def _own_labels(framework: Framework, job: Job, replica: Replica) -> dict[str, str]:
    """Return the labels of a pod that its role does not determine."""
    leads = {objects.JOB_ROLE_LABEL: "master"} if framework.hooks.is_leader(job, replica) else {}
    return {**index_label(replica), **leads, **dict(framework.hooks.extra_labels(job, replica))}


def _template_metadata(group: ReplicaGroup) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and the annotations of a template, without a label that the operator alone sets."""
    metadata = group.template.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    labels.pop(objects.JOB_ROLE_LABEL, None)
    return labels, metadata.get("annotations") or {}


def _spec(
    framework: Framework,
    group: ReplicaGroup,
    variables: tuple[Variable, ...],
    added: tuple[tuple[Document, ...], tuple[tuple[str, str], ...]],
) -> dict[str, Any]:
    """Return the pod spec; `added` are the operator's init containers and their resources."""
    spec = dict(group.template.get("spec") or {})
    containers = spec.get("containers") or []
    own = own_container(framework.container, containers)
    spec["containers"] = [
        _container(container, variables if framework.container.env_in_all_containers or container is own else ())
        for container in containers
    ]
    if containers and framework.container.port:
        _open_port(framework, group, spec, spec["containers"][containers.index(own)])
    if inits := [*(spec.get("initContainers") or []), *init_containers.fitted(spec, own or {}, *added)]:
        spec["initContainers"] = [{**TERMINATION_MESSAGE, **container} for container in inits]
    spec["restartPolicy"] = str(group.restart_policy if group.restart_policy.restarts_in_place else RestartPolicy.NEVER)
    return spec


def _grace(least: int, spec: Document) -> Document:
    """Return the grace period of a job that saves on SIGTERM, for whatever ends its pods; a longer one is kept."""
    own = spec.get("terminationGracePeriodSeconds")
    return {} if isinstance(own, int) and own >= least else {"terminationGracePeriodSeconds": least}


def _away_from(nodes: tuple[str, ...], affinity: Document) -> Document:
    """Return the affinity with a preference for other nodes. A field selector has one value in each of its terms."""
    own = affinity.get("nodeAffinity") or {}
    others = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    term = {"weight": 100, "preference": {"matchFields": others}}
    preferred = [*(own.get(PREFERRED) or ()), term]
    return {**affinity, "nodeAffinity": {**own, PREFERRED: preferred}}


def _container(container: Document, variables: tuple[Variable, ...]) -> dict[str, Any]:
    env = container.get("env") or []
    set_by_user = {entry.get("name") for entry in env}
    if set_by_user:
        variables = tuple(one for one in variables if not (one.user_overridable and one.name in set_by_user))
    own = list(map(_entry, variables))
    return {**TERMINATION_MESSAGE, **container} | ({"env": [*env, *own]} if own else {})


def _entry(variable: Variable) -> dict[str, Any]:
    if variable.source is None:
        return {"name": variable.name, "value": variable.value}
    return {"name": variable.name, "valueFrom": variable.source}


def _open_port(framework: Framework, group: ReplicaGroup, spec: Document, container: dict[str, Any]) -> None:
    """Declare the framework's port, unless it is declared; on the network of the node no container may share it."""
    own = framework.container
    if ports.has_own(ports.declared(container), own):
        return
    if spec.get("hostNetwork"):
        others = (*spec["containers"], *(spec.get("initContainers") or ()))
        if any(ports.has_number(ports.declared(part), group.port) for part in others):
            return
    container["ports"] = [*(container.get("ports") or ()), {"name": own.port_name, "containerPort": group.port}]
