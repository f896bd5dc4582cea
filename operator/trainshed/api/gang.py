"""Gang schedulers: the kind of PodGroup that each reads, and how a pod names its group."""

from __future__ import annotations

from typing import Any

from .coerce import as_mapping
from .job import Document, Job
from .objects import COSCHEDULING_GROUPS, KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA, VOLCANO_GROUPS, Resource

#: The names that stand for Volcano, for Kubernetes' own scheduler and for KAI; any other is a scheduler with the
#: coscheduling plugin.
VOLCANO, KUBERNETES, KAI = "volcano", "kubernetes", "kai-scheduler"
#: The labels of a pod from which KAI takes the queue and the priority class of the PodGroup that it makes.
KAI_QUEUE_LABEL, KAI_PRIORITY_LABEL = "kai.scheduler/queue", "priorityClassName"
#: Kubernetes' own kinds, newest first. An API server of a supported version need not serve them, and unlike a CRD they
#: cannot be installed.
OPTIONAL = (KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA)
#: Labels and annotations of a pod, as prefixes of their keys, by which users put it into a gang: of scheduler-plugins,
#: of Koordinator (which reads older ones of scheduler-plugins, too), Volcano, KAI, YuniKorn, Godel, and of groups of
#: pods that Kueue admits.
MARKS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-",
    "volcano.sh/",
    "pod-group-name",
    "kai.scheduler/",
    "runai/",
    "yunikorn.apache.org/task-group",
    "godel.bytedance.com/pod-group",
    "kueue.x-k8s.io/pod-group",
)
#: Fields of a pod's spec that do the same: of Kubernetes 1.36 and newer, and of 1.35.
MARKING_FIELDS = ("schedulingGroup", "workloadRef")
#: The reason of the condition of a job whose pods wait until the scheduler admits their PodGroup.
WAITING_FOR_POD_GROUP = "WaitingForPodGroup"


def resources(scheduler: str) -> tuple[Resource, ...]:
    """Return the kinds of PodGroup that the operator makes for a scheduler of this name, newest first.

    The API server serves one of them. There are none without a name, and none for KAI, which makes its own.
    """
    if not scheduler or is_kai(scheduler):
        return ()
    if is_kubernetes(scheduler):
        return OPTIONAL
    return (VOLCANO_GROUPS if is_volcano(scheduler) else COSCHEDULING_GROUPS,)


def is_volcano(scheduler: str) -> bool:
    """Return whether the scheduler is Volcano, in any case of letters."""
    return scheduler.lower() == VOLCANO


def is_kubernetes(scheduler: str) -> bool:
    """Return whether the scheduler is Kubernetes' own, in any case of letters."""
    return scheduler.lower() == KUBERNETES


def is_kai(scheduler: str) -> bool:
    """Return whether the scheduler is KAI, in any case of letters."""
    return scheduler.lower() == KAI


def scheduler_name(scheduler: str) -> str:
    """Return the value of `schedulerName` in pods; "" for Kubernetes' default."""
    if is_kubernetes(scheduler):
        return ""
    return next((name for name in (VOLCANO, KAI) if scheduler.lower() == name), scheduler)


def pod_labels(scheduler: str, job: Job) -> dict[str, str]:
    """Return the labels that make a pod a member of a PodGroup; for KAI those that describe the PodGroup."""
    if is_kai(scheduler):
        policy = job.policy.scheduling
        labels = {KAI_QUEUE_LABEL: policy.queue, KAI_PRIORITY_LABEL: policy.priority_class}
        return {label: value for label, value in labels.items() if value}
    is_coscheduling = resources(scheduler) == (COSCHEDULING_GROUPS,)
    return {"scheduling.x-k8s.io/pod-group": job.name} if is_coscheduling else {}


def pod_annotations(scheduler: str, group: str, role: str) -> dict[str, str]:
    """Return the annotations that make a pod of `role` a member of a PodGroup."""
    if not is_volcano(scheduler):
        return {}
    return {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": role.lower()}


def pod_fields(scheduler: str, job: Job) -> dict[str, Any]:
    """Return the fields of a pod's spec that the scheduler needs; those of the template win.

    All pods of a PodGroup of Kubernetes have the same priority class.
    """
    if not is_kubernetes(scheduler):
        return {"schedulerName": scheduler_name(scheduler)} if scheduler else {}
    if has_own_groups(job):
        return {}
    priority_class = job.policy.scheduling.priority_class
    group = {"schedulingGroup": {"podGroupName": job.name}}
    return {**group, "priorityClassName": priority_class} if priority_class else group


def has_own_groups(job: Job) -> bool:
    """Return whether pod templates name PodGroups of Kubernetes: the operator makes none then."""
    return any(as_mapping(group.template.get("spec")).get("schedulingGroup") for group in job.groups)


def has_marks(job: Job) -> bool:
    """Return whether a pod template makes its pods members of a gang that the user has made, or KAI makes one of it."""
    return any(_is_marked(group.template) for group in job.groups)


def _is_marked(template: Document) -> bool:
    metadata, spec = as_mapping(template.get("metadata")), as_mapping(template.get("spec"))
    keys = (str(key) for part in ("labels", "annotations") for key in as_mapping(metadata.get(part)))
    if any(key.startswith(MARKS) for key in keys):
        return True
    return any(spec.get(field) for field in MARKING_FIELDS) or is_kai(str(spec.get("schedulerName") or ""))
