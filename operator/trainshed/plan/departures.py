"""Pods that should be gone by now: whom to tell of, and whom to help on their way.

A pod that does not leave may still run: on a node that nobody can reach, or held by somebody's finalizer. Its place is
taken only once it is proven dead, that is, once it is gone: with its node, by an out-of-service taint, by somebody's
hand, or by ours where the user has said after how long.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from trainshed.api.actions import DeletePod, Note, Tone
from trainshed.api.annotations import FORCE_DELETE_AFTER
from trainshed.api.pod import Pod
from trainshed.api.status import Kind

from .conditions import Word
from .facts import Facts

STUCK = "PodStuckTerminating"
#: A kubelet that is well is done with a pod so soon after its grace is over.
PATIENCE = timedelta(seconds=30)
#: So many finalizers are named.
NAMED = 4


def word(facts: Facts) -> Word | None:
    """Which pod does not leave, what holds it, and what can be done; None if all do."""
    pods = _stuck(facts)
    return Word(Kind.BLOCKED, STUCK, _told(facts, pods)) if pods else None


def notes(facts: Facts) -> tuple[Note, ...]:
    """The same for those who read events, once for each pod that is the first of those that do not leave."""
    pods = _stuck(facts)
    return (Note(Tone.WARNING, STUCK, _told(facts, pods), key=f"{pods[0].uid}/{STUCK}"),) if pods else ()


def force(facts: Facts) -> tuple[DeletePod, ...]:
    """Delete for good what has had the time that the user gives it; no force moves what a finalizer holds."""
    late = (pod for pod in facts.snapshot.pods if not pod.finalizers and (end := _end(facts, pod)) and facts.now >= end)
    return tuple(DeletePod(pod.name, pod.uid, grace=0) for pod in late)


def next_look(facts: Facts) -> datetime | None:
    """When the next pod will have taken too long, if it is not gone by then."""
    return min((time for pod in facts.snapshot.pods for time in _times(facts, pod) if time > facts.now), default=None)


def _stuck(facts: Facts) -> list[Pod]:
    """Those that do not leave, the one first that has been leaving for the longest."""
    late = [(pod.leaves, pod.name, pod) for pod in facts.snapshot.pods if pod.leaves]
    return [pod for leaves, _, pod in sorted(late, key=lambda item: item[:2]) if facts.now >= leaves + PATIENCE]


def _times(facts: Facts, pod: Pod) -> Iterator[datetime]:
    if pod.leaves:
        yield pod.leaves + PATIENCE
    if end := _end(facts, pod):
        yield end


def _end(facts: Facts, pod: Pod) -> datetime | None:
    after = facts.job.force_delete_after
    return pod.leaves + timedelta(seconds=after) if pod.leaves and after is not None else None


def _told(facts: Facts, pods: list[Pod]) -> str:
    pod, others = pods[0], len(pods) - 1
    where = f" on node {pod.node}" if pod.node else ""
    more = f" ({others} more {'pod is' if others == 1 else 'pods are'} stuck)" if others else ""
    since = f"its grace period ended at {_clock(pod.leaves)}"
    return f"Pod {pod.name}{where} is still terminating; {since}{more}: {_why(facts, pod)}"


def _why(facts: Facts, pod: Pod) -> str:
    if pod.finalizers:
        names = ", ".join(pod.finalizers[:NAMED]) + (" ..." if len(pod.finalizers) > NAMED else "")
        return f"waiting for these finalizers to be removed: {names}"
    if end := _end(facts, pod):
        return f"the kubelet has not confirmed its deletion; the operator force-deletes it at {_clock(end)}"
    return (
        "the kubelet has not confirmed its deletion. The replica is not replaced until the pod is gone: delete the "
        "node, taint it with node.kubernetes.io/out-of-service, force-delete the pod (--grace-period=0 --force) if it "
        f"is certainly not running, or set {FORCE_DELETE_AFTER}"
    )


def _clock(time: datetime | None) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if time else ""
