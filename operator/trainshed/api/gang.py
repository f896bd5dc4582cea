"""Gang schedulers: the kind of PodGroup that each reads, and the marks of a pod that belongs to one.

Volcano reads annotations, the coscheduling plugin of scheduler-plugins a label; the values are v1's.
"""

from __future__ import annotations

from collections.abc import Iterable

from .dependent import COSCHEDULING_GROUPS, VOLCANO_GROUPS, Resource
from .framework import Framework

VOLCANO = "volcano"
#: The reason of the condition of a job whose pods wait until the scheduler admits their PodGroup.
WAITING = "WaitingForPodGroup"


def resources(scheduler: str) -> tuple[Resource, ...]:
    """Return the kind of PodGroup that a scheduler of this name reads; empty without a name."""
    if not scheduler:
        return ()
    return (VOLCANO_GROUPS if is_volcano(scheduler) else COSCHEDULING_GROUPS,)


def owned(frameworks: Iterable[Framework], scheduler: str) -> tuple[Resource, ...]:
    """Return the kinds of dependents that jobs of these frameworks may own, including PodGroups; each once."""
    own = (resource for framework in frameworks for resource in framework.objects.owns)
    return tuple(dict.fromkeys((*own, *resources(scheduler))))


def is_volcano(scheduler: str) -> bool:
    """Return whether the scheduler is Volcano, in any case of letters."""
    return scheduler.lower() == VOLCANO


def name(scheduler: str) -> str:
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
