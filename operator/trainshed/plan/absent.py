"""Replicas whose pods disappeared without a watch event, and what to check before a restart because of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trainshed.api.job import Replica, ReplicaGroup, Scope
from trainshed.api.objects import Pod
from trainshed.api.status import ConditionType, ReplicaStatus, Status

from . import names
from .facts import Facts


def unseen(facts: Facts) -> tuple[Pod, ...]:
    """Return the pods that exist though no watch reports them (scope Job only): they have lost their labels.

    A pod whose name another pod has by now is gone.
    """
    trouble = facts.snapshot.trouble
    if trouble is None or not trouble.hidden or facts.scope is not Scope.JOB:
        return ()
    return tuple(pod for pod in trouble.hidden if pod.name not in facts.present)


def vanished(facts: Facts) -> tuple[Replica, ...]:
    """Return the replicas whose pods are no longer observed though they ran when last observed (scope Job only)."""
    return facts.once(_vanished)


def _vanished(facts: Facts) -> tuple[Replica, ...]:
    known = hidden(facts)
    if facts.scope is not Scope.JOB or not facts.status.true(ConditionType.RUNNING):
        return known
    if facts.seats.keys() <= facts.present or facts.stale:  # the first is all that most reconciles check
        return known
    shrunk = facts.status.shrunk | facts.seen.shrunk  # the counts of the status include replicas that were scaled down
    steady = (group for group in facts.job.replicas if group.role not in shrunk)
    found = (member for group in steady for member in _fewer(facts, group))
    return (*known, *(member for member in found if member not in known))


def hidden(facts: Facts) -> tuple[Replica, ...]:
    """Return those of them whose pods are known to exist and belong to the current attempt."""
    seated = (pod for pod in unseen(facts) if pod.name in facts.seats and not facts.given_up(pod))
    return tuple(facts.seats[pod.name] for pod in seated if facts.seats[pod.name] in facts.missing)


def awaited(facts: Facts) -> tuple[str, ...]:
    """Return the names of all pods whose existence must be checked before another pod is created."""
    missed = (names.child(facts.job, member) for member in vanished(facts))
    return tuple(dict.fromkeys((*missed, *(pod.name for pod in unseen(facts)))))


def untold(facts: Facts) -> tuple[str, ...]:
    """Return the names of all pods that should exist and are not observed (scope Job only).

    The counts in the status lag: a pod that disappears during a failure may not have been counted as running.
    """
    if facts.scope is not Scope.JOB or facts.seats.keys() <= facts.present:
        return ()
    return tuple(names.child(facts.job, member) for member in facts.missing)


def lost(facts: Facts) -> tuple[Replica, ...]:
    """Return the replicas that disappeared, once that has been checked for all of them."""
    return () if hidden(facts) else vanished(facts)


def seen(facts: Facts) -> Status:
    """Return the stored status with the counts of now; pods that are only hidden from the watch count as active.

    So a pod that is deleted while it is hidden is noticed as missing, and not simply replaced while the others run.
    """
    more = Counter(member.role for member in hidden(facts))
    counted = {role: replace(tally, active=tally.active + more[role]) for role, tally in facts.seen.tallies.items()}
    return replace(facts.seen, tallies=counted)


def _fewer(facts: Facts, group: ReplicaGroup) -> tuple[Replica, ...]:
    """Return missing replicas of a role, as many as the role has fewer pods than the status counted as running."""
    stored = facts.status.tallies.get(group.role, ReplicaStatus())
    wanted = min(stored.active + stored.succeeded, group.count) - len(facts.done[group.role])
    here = [member for member in facts.current if member.role == group.role and not facts.finished(member)]
    gone = [member for member in facts.missing if member.role == group.role]
    return tuple(gone[: max(0, wanted - len(here))])
