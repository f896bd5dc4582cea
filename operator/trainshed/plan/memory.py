"""What a status must have said, should it have been wiped or set back: pods wear the number of their attempt."""

from __future__ import annotations

from dataclasses import replace

from trainshed.api.snapshot import Snapshot

from . import names


def restored(snapshot: Snapshot) -> Snapshot:
    """The snapshot, its status no younger than its pods.

    An attempt is stored before its pods are made. Pods of a later one than the status knows of tell that somebody has
    written over it, or that the server's store was restored from an older state. They stay, and the attempts that the
    status has forgotten count as tries: rather one too many than tries without end.
    """
    status = snapshot.status
    known = min((status.attempts.get(group.role, 0) for group in snapshot.job.replicas), default=0)
    if status.over or not any(pod.attempt > known for pod in snapshot.pods):
        return snapshot
    roles = {names.child(snapshot.job, member): member.role for member in snapshot.job.members}
    attempts = dict(status.attempts)
    for pod in snapshot.pods:
        role = roles.get(pod.name)
        if role and pod.attempt > attempts.get(role, 0):
            attempts[role] = pod.attempt
    forgotten = max((count - status.attempts.get(role, 0) for role, count in attempts.items()), default=0)
    if not forgotten:
        return snapshot
    retries = replace(status.retries, used=status.retries.used + forgotten)
    return replace(snapshot, status=replace(status, attempts=attempts, retries=retries))
