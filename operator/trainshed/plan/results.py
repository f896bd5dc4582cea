"""The finalizer that keeps pods until their result is stored in the status of the job, and when it is removed.

Off by default: docs/decisions/results-are-kept-on-request.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.api.actions import Event, EventType, ReleasePod
from trainshed.api.objects import Phase, Pod
from trainshed.api.parse import TRACK_RESULTS
from trainshed.api.status import ReplicaStatus

from . import restarts
from .facts import Facts


def let_go(pods: Iterable[Pod]) -> tuple[ReleasePod, ...]:
    """Return actions that remove the finalizer of these pods: their results are stored, or no longer needed."""
    return tuple(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers) for pod in pods if pod.held)


def leaving(pods: Iterable[Pod]) -> tuple[ReleasePod, ...]:
    """Remove the finalizer of the terminating ones of these pods; the others are deleted first, which changes them."""
    return let_go(pod for pod in pods if pod.deleting)


def noted(facts: Facts) -> tuple[ReleasePod, ...]:
    """Remove the finalizer of pods whose success is stored, and of terminating pods without a result to store."""
    pending = facts.failed if restarts.incident(facts) else {}
    held = {member: pod for member, pod in facts.current.items() if pod.held}
    return let_go(
        pod
        for member, pod in held.items()
        if _stored(facts, pod) or (pod.deleting and member not in pending and not _succeeded(facts, pod))
    )


def refused(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning if the job asks to keep results and the operator runs without --keep-results."""
    if facts.snapshot.site.keep_results or (TRACK_RESULTS, "true") not in facts.job.annotations:
        return ()
    message = f"{TRACK_RESULTS} has no effect: the operator runs without --keep-results"
    return (Event(EventType.WARNING, "ResultsNotKept", message, key="ResultsNotKept"),)


def _succeeded(facts: Facts, pod: Pod) -> bool:
    """Return whether the pod has succeeded and the status stores successes of its role."""
    replica = facts.seats[pod.name]
    return pod.phase is Phase.SUCCEEDED and replica.index in facts.done[replica.role]


def _stored(facts: Facts, pod: Pod) -> bool:
    replica = facts.seats[pod.name]
    return (
        pod.phase is Phase.SUCCEEDED and replica.index in facts.status.tallies.get(replica.role, ReplicaStatus()).done
    )
