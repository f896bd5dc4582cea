"""Pods that are stuck terminating: when to report them, and when to force-delete them.

A pod that is stuck terminating may still run, on a node that is unreachable, or be kept by a finalizer. Its replica is
created again only once the pod is proven dead, which means that it is gone: with its node, by an out-of-service taint,
deleted by an administrator, or force-deleted by the operator if the user has set a time for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from trainshed.api.actions import DeletePod, Event, EventType
from trainshed.api.objects import Pod
from trainshed.api.parse import FORCE_DELETE_AFTER
from trainshed.api.status import ConditionType

from .conditions import Word
from .facts import Facts

STUCK = "PodStuckTerminating"
#: A healthy kubelet confirms the deletion of a pod within this time after the grace period.
PATIENCE = timedelta(seconds=30)
#: The maximum number of finalizers in a message.
NAMED = 4


def word(facts: Facts) -> Word | None:
    """Return the condition Blocked for pods that are stuck terminating, or None if there is none."""
    pods = _stuck(facts)
    return Word(ConditionType.BLOCKED, STUCK, _message(facts, pods)) if pods else None


def notes(facts: Facts) -> tuple[Event, ...]:
    """Return the same message as an Event, once for each pod that is the first of the stuck ones."""
    pods = _stuck(facts)
    return (Event(EventType.WARNING, STUCK, _message(facts, pods), key=f"{pods[0].uid}/{STUCK}"),) if pods else ()


def force(facts: Facts) -> tuple[DeletePod, ...]:
    """Force-delete pods after the time that the user has set; pods with finalizers cannot be force-deleted."""
    late = (
        pod
        for pod in facts.snapshot.pods
        if not pod.finalizers and (end := _force_deletion(facts, pod)) and facts.now >= end
    )
    return tuple(DeletePod(pod.name, pod.uid, grace=0) for pod in late)


def next_look(facts: Facts) -> datetime | None:
    """Return when the next terminating pod will count as stuck or will be force-deleted, or None."""
    return min((time for pod in facts.snapshot.pods for time in _times(facts, pod) if time > facts.now), default=None)


def _stuck(facts: Facts) -> list[Pod]:
    """Return the pods that are stuck terminating, the longest stuck first."""
    late = [(pod.leaves, pod.name, pod) for pod in facts.snapshot.pods if pod.leaves]
    return [pod for leaves, _, pod in sorted(late, key=lambda item: item[:2]) if facts.now >= leaves + PATIENCE]


def _times(facts: Facts, pod: Pod) -> Iterator[datetime]:
    if pod.leaves:
        yield pod.leaves + PATIENCE
    if end := _force_deletion(facts, pod):
        yield end


def _force_deletion(facts: Facts, pod: Pod) -> datetime | None:
    after = facts.job.force_delete_after
    return pod.leaves + timedelta(seconds=after) if pod.leaves and after is not None else None


def _message(facts: Facts, pods: list[Pod]) -> str:
    pod, others = pods[0], len(pods) - 1
    where = f" on node {pod.node}" if pod.node else ""
    more = f" ({others} more {'pod is' if others == 1 else 'pods are'} stuck)" if others else ""
    since = f"its grace period ended at {_clock(pod.leaves)}"
    return f"Pod {pod.name}{where} is still terminating; {since}{more}: {_cause(facts, pod)}"


def _cause(facts: Facts, pod: Pod) -> str:
    if pod.finalizers:
        names = ", ".join(pod.finalizers[:NAMED]) + (" ..." if len(pod.finalizers) > NAMED else "")
        return f"waiting for these finalizers to be removed: {names}"
    if end := _force_deletion(facts, pod):
        return f"the kubelet has not confirmed its deletion; the operator force-deletes it at {_clock(end)}"
    return (
        "the kubelet has not confirmed its deletion. The replica is not replaced until the pod is gone: delete the "
        "node, taint it with node.kubernetes.io/out-of-service, force-delete the pod (--grace-period=0 --force) if it "
        f"is certainly not running, or set {FORCE_DELETE_AFTER}"
    )


def _clock(time: datetime | None) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if time else ""
