"""Pods that do not terminate, and pods that do not start in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainshed.api.actions import DeletePod, Event, EventType
from trainshed.api.job import Replica
from trainshed.api.job_annotations import FORCE_DELETE_AFTER
from trainshed.api.objects import Container, Phase, Pod
from trainshed.api.status import ConditionType

from .conditions import ConditionUpdate
from .facts import Facts
from .messages import replica_problems

STUCK_TERMINATING = "PodStuckTerminating"
#: A healthy kubelet confirms the deletion of a pod within this time after the grace period.
STUCK_AFTER = timedelta(seconds=30)


def stuck_condition(facts: Facts) -> ConditionUpdate | None:
    """Return the condition Blocked for pods that are stuck terminating, or None if there is none."""
    pods = _stuck(facts)
    return ConditionUpdate(ConditionType.BLOCKED, STUCK_TERMINATING, _message(facts, pods)) if pods else None


def stuck_events(facts: Facts) -> tuple[Event, ...]:
    """Return the same message as an Event, once for each pod that becomes the longest stuck."""
    pods = _stuck(facts)
    return (
        (Event(EventType.WARNING, STUCK_TERMINATING, _message(facts, pods), key=f"{pods[0].uid}/{STUCK_TERMINATING}"),)
        if pods
        else ()
    )


def force_delete(facts: Facts) -> tuple[DeletePod, ...]:
    """Force-delete pods after the time that the user has set; pods with finalizers cannot be force-deleted."""
    overdue = (
        pod
        for pod in facts.terminating
        if not pod.finalizers and (end := _force_deletion(facts, pod)) and facts.now >= end
    )
    return tuple(DeletePod(pod.name, pod.uid, grace=0) for pod in overdue)


def next_stuck_check(facts: Facts) -> datetime | None:
    """Return when the next terminating pod will count as stuck or will be force-deleted, or None."""
    return min((time for pod in facts.terminating for time in _times(facts, pod) if time > facts.now), default=None)


def _stuck(facts: Facts) -> list[Pod]:
    """Return the pods that are stuck terminating, the longest stuck first."""
    terminating = [(pod.deletion_timestamp, pod.name, pod) for pod in facts.terminating if pod.deletion_timestamp]
    return [
        pod
        for deletion, _, pod in sorted(terminating, key=lambda item: item[:2])
        if facts.now >= deletion + STUCK_AFTER
    ]


def _times(facts: Facts, pod: Pod) -> Iterator[datetime]:
    stuck = pod.deletion_timestamp + STUCK_AFTER if pod.deletion_timestamp else None
    return (time for time in (stuck, _force_deletion(facts, pod)) if time)


def _force_deletion(facts: Facts, pod: Pod) -> datetime | None:
    after = facts.job.force_delete_after
    return pod.deletion_timestamp + timedelta(seconds=after) if pod.deletion_timestamp and after is not None else None


def _message(facts: Facts, pods: list[Pod]) -> str:
    return replica_problems.still_terminating(
        pods[0], len(pods) - 1, _force_deletion(facts, pods[0]), FORCE_DELETE_AFTER
    )


def startup_overdue(facts: Facts) -> tuple[Replica, Pod] | None:
    """Return the first replica whose container has not started running in time, and its pod, or None.

    The time starts when the pod is created, by the API server's clock, and starts again with each new pod; in a group
    of Kueue when it has a node. A container
    that has run and exited is not late, unless it ran for less than that time and now waits to be restarted.
    """
    if facts.job.startup_deadline is None:
        return None
    late = [
        (end, pod.name, replica, pod)
        for replica, pod in facts.current.items()
        if (end := _startup_deadline(facts, pod)) and facts.now >= end
    ]
    if not late:
        return None
    _, _, replica, pod = min(late, key=lambda found: found[:2])
    return replica, pod


def next_startup_check(facts: Facts) -> datetime | None:
    """Return when the next replica will exceed the start-up deadline, or None."""
    if facts.job.startup_deadline is None:
        return None
    ends = (_startup_deadline(facts, pod) for pod in facts.current.values())
    return min((end for end in ends if end and end > facts.now), default=None)


def _startup_deadline(facts: Facts, pod: Pod) -> datetime | None:
    """Return the deadline of this pod; None if it runs, is finished or terminating, or if no time is set."""
    seconds, begun = facts.job.startup_deadline, pod.scheduled if facts.job.grouped else pod.created
    if seconds is None or begun is None or pod.over or pod.deleting:
        return None
    time = timedelta(seconds=seconds)
    own = facts.own_container(pod)
    late = _not_started(begun, own, time) if own else pod.phase is Phase.PENDING
    return begun + time if late else None


def _not_started(created: datetime, own: Container, time: timedelta) -> bool:
    if own.started is not None or own.exit_code is not None:
        return False
    if own.before is None or own.before.finished is None:
        return own.restarts == 0
    ended = own.before.finished
    started = own.before.started if own.before.started and own.before.started >= created else ended
    return started < created + time and ended - started < time
