"""Gang schedulers: which kind of PodGroup each reads, and how a pod says that it belongs to one.

Volcano reads annotations, the coscheduling plugin of scheduler-plugins a label; both as v1 writes them.
"""

from __future__ import annotations

from .dependent import COSCHEDULING_GROUPS, VOLCANO_GROUPS, Resource

VOLCANO = "volcano"


def resources(scheduler: str) -> tuple[Resource, ...]:
    """The kind of PodGroup that a scheduler of this name reads; none without a name."""
    if not scheduler:
        return ()
    return (VOLCANO_GROUPS if scheduler.lower() == VOLCANO else COSCHEDULING_GROUPS,)
