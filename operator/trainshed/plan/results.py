"""Which pods are held until their end is noted in the job's status, and when they are let go.

Off unless it is asked for: docs/decisions/optional-pod-finalizer.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.api.actions import Note, ReleasePod, Tone
from trainshed.api.annotations import KEEP_RESULTS
from trainshed.api.pod import Phase, Pod
from trainshed.api.status import Tally

from . import restarts
from .facts import Facts


def let_go(pods: Iterable[Pod]) -> tuple[ReleasePod, ...]:
    """Release these, whose results are noted, or of no use any more."""
    return tuple(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers) for pod in pods if pod.held)


def leaving(pods: Iterable[Pod]) -> tuple[ReleasePod, ...]:
    """Release those of these that are on their way out; the others are to be deleted first, which changes them."""
    return let_go(pod for pod in pods if pod.deleting)


def noted(facts: Facts) -> tuple[ReleasePod, ...]:
    """Release who has succeeded, once that is stored, and who goes without anything to be noted about it."""
    pending = facts.failed if restarts.incident(facts) else {}
    held = {member: pod for member, pod in facts.current.items() if pod.held}
    return let_go(
        pod
        for member, pod in held.items()
        if _stored(facts, pod) or (pod.deleting and member not in pending and not _succeeded(facts, pod))
    )


def refused(facts: Facts) -> tuple[Note, ...]:
    """A warning that the operator was not started so that it could keep results."""
    if facts.snapshot.site.keep_results or (KEEP_RESULTS, "true") not in facts.job.annotations:
        return ()
    told = f"{KEEP_RESULTS} has no effect: the operator runs without --keep-results"
    return (Note(Tone.WARNING, "ResultsNotKept", told, key="ResultsNotKept"),)


def _succeeded(facts: Facts, pod: Pod) -> bool:
    """Whether it has, and this is something that is noted of its role."""
    seat = facts.seats[pod.name]
    return pod.phase is Phase.SUCCEEDED and seat.index in facts.done[seat.role]


def _stored(facts: Facts, pod: Pod) -> bool:
    seat = facts.seats[pod.name]
    return pod.phase is Phase.SUCCEEDED and seat.index in facts.status.tallies.get(seat.role, Tally()).done
