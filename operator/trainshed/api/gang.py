"""Gang schedulers: the kind of PodGroup that each reads, and how a pod names its group."""

from __future__ import annotations

from .objects import COSCHEDULING_GROUPS, VOLCANO_GROUPS, Resource

VOLCANO = "volcano"
#: The reason of the condition of a job whose pods wait until the scheduler admits their PodGroup.
WAITING_FOR_POD_GROUP = "WaitingForPodGroup"


def resources(scheduler: str) -> tuple[Resource, ...]:
    """Return the kind of PodGroup that a scheduler of this name reads; empty without a name."""
    if not scheduler:
        return ()
    return (VOLCANO_GROUPS if is_volcano(scheduler) else COSCHEDULING_GROUPS,)


def is_volcano(scheduler: str) -> bool:
    """Return whether the scheduler is Volcano, in any case of letters."""
    return scheduler.lower() == VOLCANO


def scheduler_name(scheduler: str) -> str:
    """Return the value of `schedulerName` in pods."""
    return VOLCANO if is_volcano(scheduler) else scheduler


def pod_labels(scheduler: str, group: str) -> dict[str, str]:
    """Return the labels that make a pod a member of a PodGroup."""
    return {"scheduling.x-k8s.io/pod-group": group} if scheduler and not is_volcano(scheduler) else {}


def pod_annotations(scheduler: str, group: str, role: str) -> dict[str, str]:
    """Return the annotations that make a pod of `role` a member of a PodGroup."""
    if not is_volcano(scheduler):
        return {}
    return {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": role.lower()}
