"""Who has to wait until others are ready."""

from __future__ import annotations

from trainshed.api.job import Member

from .facts import Facts


def gated(facts: Facts) -> frozenset[Member]:
    """The missing ones whose time comes when all of the role they depend on are ready, or will never be again.

    A gang scheduler places members only together; with one nobody waits for anybody.
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
