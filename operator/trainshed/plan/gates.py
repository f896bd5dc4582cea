"""The start order: replicas that are created only when another role is ready."""

from __future__ import annotations

from trainshed.api.job import Replica

from .facts import Facts


def gated(facts: Facts) -> frozenset[Replica]:
    """Return the missing replicas that must wait until the role they depend on is ready, or has finished.

    With a gang scheduler no replica waits: it schedules all pods together or none.
    """
    if facts.snapshot.site.gang_scheduler:
        return frozenset()
    gates = {member: facts.framework.hooks.start_after(facts.job, member) for member in facts.missing}
    open_gates = {role for role in set(gates.values()) if _all_ready(facts, role)}
    return frozenset(member for member, role in gates.items() if role not in open_gates)


def _all_ready(facts: Facts, role: str) -> bool:
    group = facts.job.of(role)
    pods = (pod for member, pod in facts.current.items() if member.role == role and not pod.deleting)
    return group is None or sum(1 for pod in pods if pod.ready or pod.over) >= group.count
