"""Pods that are missing in the cache: which of them to read from the API server, and what that means for the counts."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from msgspec.structs import replace

from trainshed.api import framework
from trainshed.api.job import RestartScope
from trainshed.api.objects import Phase
from trainshed.api.status import Status

from .facts import MAX_NAMED, Facts, disappeared, hidden_pods, hidden_replicas


def pods_to_verify(facts: Facts) -> tuple[str, ...]:
    """Return the names of all pods whose existence must be checked before another pod is created."""
    missed = (framework.child_name(facts.job, replica) for replica in disappeared(facts))
    return tuple(dict.fromkeys((*missed, *(pod.name for pod in hidden_pods(facts)))))


def missing_pods(facts: Facts) -> tuple[str, ...]:
    """Return the names of the first `MAX_NAMED` pods that should exist and are not observed (scope Job only).

    The counts in the status lag: a pod that disappears during a failure may not have been counted as running.
    """
    if facts.scope is not RestartScope.JOB or not facts.absent:
        return ()
    return tuple(framework.child_name(facts.job, replica) for replica in islice(facts.missing, MAX_NAMED))


def observed_status(facts: Facts) -> Status:
    """Return the stored status with the counts of now; pods that are only hidden from the watch count as active.

    So a pod that is deleted while it is hidden is noticed as missing, and not simply replaced while the others run.
    """
    hidden = hidden_replicas(facts)
    if not hidden:
        return facts.observed
    phases = {pod.name: pod.phase for pod in facts.owned}
    found = [(replica.role, phases.get(framework.child_name(facts.job, replica))) for replica in hidden]
    more = Counter(role for role, phase in found if phase is not Phase.RUNNING)
    known = Counter(role for role, phase in found if phase not in (None, Phase.RUNNING))
    counted = {
        role: replace(
            replica_status,
            active=replica_status.active + more[role],
            not_running=replica_status.not_running - min(known[role], replica_status.not_running),
        )
        for role, replica_status in facts.observed.replica_statuses.items()
    }
    return replace(facts.observed, replica_statuses=counted)


def unwatched_pods(facts: Facts) -> tuple[str, ...]:
    """Return the names of pods of a job that stops which have left the watch and may hold resources still.

    First those that are not known to terminate. If the status is of another process, or some pods were too many to be
    remembered, these are first the missing ones, where it counts more pods than there are: they may be hidden.
    """
    unwatched = facts.owned[len(facts.snapshot.pods) :]
    left = sorted((pod for pod in unwatched if pod.holds_resources), key=lambda pod: pod.deleting)
    names = [pod.name for pod in left]
    counts = facts.status.replica_statuses.values()
    there = sum(pod.holds_resources for pod in (*facts.snapshot.pods, *left))
    if not facts.snapshot.counted_here and sum(count.active + count.not_running for count in counts) > there:
        names[:0] = [framework.child_name(facts.job, replica) for replica in islice(facts.absent, MAX_NAMED)]
    return tuple(dict.fromkeys(names))
