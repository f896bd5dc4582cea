"""The start order of roles: which missing replicas wait until others are ready, and when the order yields."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainshed.api import gang
from trainshed.api.framework import StartOrder
from trainshed.api.indexes import Indexes
from trainshed.api.objects import Pod, start_of
from trainshed.api.replicas import NONE, Replicas
from trainshed.api.status import MAX_SHORT_NAME_BYTES, Waiting

from .facts import Facts
from .messages import replica_problems

#: Pods that are not ready after this time may need those that wait for them.
YIELD_AFTER = timedelta(seconds=30)
#: The reason of replicas that are not created yet. Kubernetes has no reason for that.
NOT_CREATED = "NotCreated"


def gated_replicas(facts: Facts) -> Replicas:
    """Return the missing replicas that must wait until the role that they depend on is ready, or has finished.

    With a gang scheduler, or in a group of Kueue, no replica waits: all pods start together or none. A pod that is
    withheld may stop a scheduler, or the readiness of another, without end, so the order yields to the marks of a gang
    that the user made, to pods that cannot be scheduled, and to pods that have not become ready for `YIELD_AFTER`; not
    if the spec asks for the order.
    """
    return facts.once(_gated)


def next_check(facts: Facts) -> datetime | None:
    """Return when the order will yield though no pod changes, or None."""
    if not gated_replicas(facts):
        return None
    ends = (_yields_at(facts, order.role) for _, order in _orders(facts) if not order.requested)
    return min((end for end in ends if end and end > facts.now), default=None)


def sentence(facts: Facts) -> str:
    """Return which replicas are not created yet and why, "" if all may be created."""
    found = facts.once(_withheld)
    return replica_problems.not_created_yet((role, indexes, order.role) for role, order, indexes in found)


def withheld(facts: Facts) -> tuple[Waiting, ...]:
    """Return the replicas that are not created yet and why, as entries of `status.waiting`, one for each role."""
    return tuple(
        Waiting(
            role=role,
            indexes=indexes.abridged(MAX_SHORT_NAME_BYTES),
            count=len(indexes),
            reason=NOT_CREATED,
            message=replica_problems.withheld_until_ready(order.role),
            since=since(facts, role),
        )
        for role, order, indexes in facts.once(_withheld)
    )


def _withheld(facts: Facts) -> list[tuple[str, StartOrder, Indexes]]:
    """Return the replicas of each role that are not created yet, with the order that they follow."""
    gated = gated_replicas(facts)
    return [(role, order, gated.of(role)) for role, order in _orders(facts) if role in gated.roles] if gated else []


def since(facts: Facts, role: str) -> datetime:
    """Return the time of the status that said first that replicas of a role are not created yet."""
    known = (item.since for item in facts.status.waiting if (item.role, item.reason) == (role, NOT_CREATED))
    return next(known, facts.now.replace(microsecond=0))


def _gated(facts: Facts) -> Replicas:
    if facts.snapshot.job_defaults.gang_scheduler or facts.job.grouped or not facts.missing:
        return NONE
    closed = {role for role, order in _orders(facts) if not _is_open(facts, order)}
    return facts.missing.only(closed) if closed else NONE


def _orders(facts: Facts) -> Iterator[tuple[str, StartOrder]]:
    for group in facts.job.groups:
        if order := facts.framework.hooks.start_after(facts.job, group.role):
            yield group.role, order


def _is_open(facts: Facts, order: StartOrder) -> bool:
    group = facts.job.of(order.role)
    if group is None or sum(1 for pod in _pods(facts, order.role) if pod.over or facts.is_ready(pod)) >= group.count:
        return True
    if order.requested:
        return False
    end = _yields_at(facts, order.role)
    return gang.has_marks(facts.job) or (end is not None and end <= facts.now)


def _yields_at(facts: Facts, role: str) -> datetime | None:
    """Return when the order yields to the pods of a role that are not ready, None if no such time is known."""
    late = (pod for pod in _pods(facts, role) if not (pod.over or facts.is_ready(pod)))
    return min((end for pod in late if (end := _ends(pod))), default=None)


def _ends(pod: Pod) -> datetime | None:
    """Return until when the others wait for this pod; without end while a kubelet pulls images and makes containers.

    Nothing that it does then can depend on the others.
    """
    if pod.created is None:
        return None
    if not pod.node:
        return pod.created if pod.unplaced or pod.unschedulable else pod.created + YIELD_AFTER
    starts = _starts(pod)
    return min(starts) + YIELD_AFTER if starts else None


def _starts(pod: Pod) -> list[datetime]:
    """Return when the containers started that run or have failed before, but for sidecars."""
    begun = (item for item in pod.containers if not item.sidecar and (item.exit_code is None or item.exit_code))
    times = (start_of(item) or (start_of(item.before) if item.before else None) for item in begun)
    return [time for time in times if time]


def _pods(facts: Facts, role: str) -> Iterator[Pod]:
    return (pod for replica, pod in facts.current.items() if replica.role == role and not pod.deleting)
