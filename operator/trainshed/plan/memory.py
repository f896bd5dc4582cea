"""The recovery of a status that was overwritten or restored: pods carry their attempt in an annotation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainshed.api.actions import Snapshot

from . import names

#: A pod that is ahead of the status by more attempts than this is ignored: its annotation was edited. Two attempts are
#: at least one second apart.
AHEAD = 1_000_000


def restored(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the attempts of its roles not older than those of their pods.

    An attempt is stored before its pods are created. Pods of a later attempt than that of the status show that the
    status was overwritten, or that etcd was restored from an older backup. These pods stay, and the attempts that the
    status lacks count as restarts: one restart counted too many is better than restarts without a limit.
    """
    status, job = snapshot.status, snapshot.job
    if status.over or job.deleting or job.policy.managed_elsewhere or not job.replicas:
        return snapshot
    roles = {group.role for group in job.replicas}
    known = {role: attempt for role, attempt in status.attempts.items() if role in roles}
    attempts = known | _later_attempts(snapshot, known)
    if attempts == status.attempts:
        return snapshot
    forgotten = max((attempt - known.get(role, 0) for role, attempt in attempts.items()), default=0)
    retries = replace(status.retries, used=status.retries.used + forgotten)
    return replace(snapshot, status=replace(status, attempts=attempts, retries=retries))


def _later_attempts(snapshot: Snapshot, known: Mapping[str, int]) -> dict[str, int]:
    """Return the latest attempt of the pods by role, where it is later than the known one."""
    found: dict[str, int] = {}
    later = [pod for pod in snapshot.pods if pod.attempt > min(known.values(), default=0)]
    roles = {names.child(snapshot.job, member): member.role for member in snapshot.job.members} if later else {}
    for pod in later:
        role = roles.get(pod.name, "")
        if role and max(known.get(role, 0), found.get(role, 0)) < pod.attempt <= known.get(role, 0) + AHEAD:
            found[role] = pod.attempt
    return found
