"""What a status must have said, should it have been wiped or set back: pods wear the number of their attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainshed.api.snapshot import Snapshot

from . import names

#: A pod that is ahead of the status by more attempts does not tell what the status has forgotten: somebody has written
#: that. One attempt follows another after a second at the earliest.
AHEAD = 1_000_000


def restored(snapshot: Snapshot) -> Snapshot:
    """The snapshot, its status no younger than its pods, and with the attempts of the roles that the job has.

    An attempt is stored before its pods are made. Pods of a later one than the status knows of tell that somebody has
    written over it, or that the server's store was restored from an older state. They stay, and the attempts that the
    status has forgotten count as tries: rather one too many than tries without end.
    """
    status, job = snapshot.status, snapshot.job
    if status.over or job.deleting or job.policy.managed_elsewhere or not job.replicas:
        return snapshot
    roles = {group.role for group in job.replicas}
    known = {role: attempt for role, attempt in status.attempts.items() if role in roles}
    attempts = known | _worn(snapshot, known)
    if attempts == status.attempts:
        return snapshot
    forgotten = max((attempt - known.get(role, 0) for role, attempt in attempts.items()), default=0)
    retries = replace(status.retries, used=status.retries.used + forgotten)
    return replace(snapshot, status=replace(status, attempts=attempts, retries=retries))


def _worn(snapshot: Snapshot, known: Mapping[str, int]) -> dict[str, int]:
    """By role the latest attempt of its pods, where that is later than the known one."""
    found: dict[str, int] = {}
    later = [pod for pod in snapshot.pods if pod.attempt > min(known.values(), default=0)]
    roles = {names.child(snapshot.job, member): member.role for member in snapshot.job.members} if later else {}
    for pod in later:
        role = roles.get(pod.name, "")
        if role and max(known.get(role, 0), found.get(role, 0)) < pod.attempt <= known.get(role, 0) + AHEAD:
            found[role] = pod.attempt
    return found
