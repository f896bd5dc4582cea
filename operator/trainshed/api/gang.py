"""Gang schedulers: which kind of PodGroup each reads, and how a pod says that it belongs to one.

Volcano reads annotations, the coscheduling plugin of scheduler-plugins a label; both as v1 writes them.
"""

from __future__ import annotations

from collections.abc import Iterable

from .dependent import COSCHEDULING_GROUPS, VOLCANO_GROUPS, Resource
from .framework import Framework

VOLCANO = "volcano"
#: The reason of the condition of a job whose pods wait until the scheduler lets their group in.
WAITING = "WaitingForPodGroup"


def resources(scheduler: str) -> tuple[Resource, ...]:
    """The kind of PodGroup that a scheduler of this name reads; none without a name."""
    if not scheduler:
        return ()
    return (VOLCANO_GROUPS if is_volcano(scheduler) else COSCHEDULING_GROUPS,)


def owned(frameworks: Iterable[Framework], scheduler: str) -> tuple[Resource, ...]:
    """The kinds of dependents that jobs of these frameworks may own, PodGroups among them; each once."""
    own = (resource for framework in frameworks for resource in framework.objects.owns)
    return tuple(dict.fromkeys((*own, *resources(scheduler))))


def is_volcano(scheduler: str) -> bool:
    """Whether that is Volcano, however it is spelled."""
    return scheduler.lower() == VOLCANO


def name(scheduler: str) -> str:
    """What pods call it in their `schedulerName`."""
    return VOLCANO if is_volcano(scheduler) else scheduler


def pod_labels(scheduler: str, group: str) -> dict[str, str]:
    """The labels by which a pod belongs to a group."""
    return {"scheduling.x-k8s.io/pod-group": group} if scheduler and not is_volcano(scheduler) else {}


def pod_annotations(scheduler: str, group: str, role: str) -> dict[str, str]:
    """The annotations by which a pod belongs to a group, as one of `role`."""
    if not is_volcano(scheduler):
        return {}
    return {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": role.lower()}
