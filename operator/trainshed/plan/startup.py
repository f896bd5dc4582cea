"""Members that have not come to run in the time that the user gives them, and what keeps them from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from trainshed.api.job import Member
from trainshed.api.pod import Container, Pod
from trainshed.api.status import Failure, Kind

from . import failures, obituary
from .conditions import Word
from .facts import Facts

#: Why a container has no image (kubelet/images/types.go).
IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
        "ErrImageNeverPull",
        "InvalidImageName",
    }
)
#: A container waits for this reason while others are still to be done with.
INITIALIZING = "PodInitializing"


def late(facts: Facts) -> tuple[Member, Failure] | None:
    """The first member whose container has not come to run in time, as a failure; None if all are in time.

    The time begins with its pod's creation, at the API server's clock; a pod that is made anew has it anew. One that
    has run does not become late by ending, unless it ran for less than that time and waits to be started again.
    """
    found = [(end, pod.name, member, pod) for member, pod in facts.current.items() if (end := _due(facts, pod))]
    over = sorted(
        ((end, name, member, pod) for end, name, member, pod in found if facts.now >= end), key=lambda at: at[:2]
    )
    return next(((member, _failure(facts, member, pod)) for _, _, member, pod in over), None)


def next_look(facts: Facts) -> datetime | None:
    """When the next member will be late, if it does not run by then."""
    ends = (_due(facts, pod) for pod in facts.current.values())
    return min((end for end in ends if end and end > facts.now), default=None)


def word(facts: Facts, failure: Failure) -> Word:
    """That this failure is the job's."""
    job = facts.job
    told = f"{job.kind} {job.name} has failed because {obituary.sentence(failure)}"
    return Word(Kind.FAILED, f"{job.kind}{Kind.FAILED}", told)


def _due(facts: Facts, pod: Pod) -> datetime | None:
    """When this pod is late; None for one that runs, is over or leaves, or if nobody has set a time."""
    seconds = facts.job.startup_deadline
    if seconds is None or pod.created is None or pod.over or pod.deleting:
        return None
    time = timedelta(seconds=seconds)
    own = failures.main(pod, facts.own_container)
    return pod.created + time if own is None or _kept(pod.created, own, time) else None


def _kept(created: datetime, own: Container, time: timedelta) -> bool:
    if own.started is not None or own.exit_code is not None:
        return False
    if own.before is None or own.before.finished is None:
        return own.restarts == 0
    ended = own.before.finished
    began = own.before.started if own.before.started and own.before.started >= created else ended
    return began < created + time and ended - began < time


def _failure(facts: Facts, member: Member, pod: Pod) -> Failure:
    container = _culprit(pod, failures.main(pod, facts.own_container))
    reason, words = _trouble(pod, container)
    seconds = facts.job.startup_deadline or 0
    found = Failure(
        pod=pod.name,
        kind=failures.classed(reason) or failures.INFRASTRUCTURE,
        reason=reason,
        exit_code=container.before.exit_code if container and container.before else None,
        node=pod.node,
        message=(container.message if container and pod.node else pod.unschedulable)[-failures.LAST_WORDS :],
        time=facts.now,
    )
    where = f" on {pod.node}" if pod.node else ""
    summary = f"{member}{where} did not start running within {obituary.span(seconds)} of pod creation: {words}"
    return replace(obituary.of(facts, member, found), summary=summary)


def _culprit(pod: Pod, own: Container | None) -> Container | None:
    """The container that everything waits for: the framework's own, or the first init container that is not done."""
    if own is not None and own.reason not in ("", INITIALIZING):
        return own
    inits = (container for container in pod.containers if container.init)
    undone = (item for item in inits if (item.started is None if item.sidecar else item.exit_code != 0))
    return next(undone, own)


def _trouble(pod: Pod, container: Container | None) -> tuple[str, str]:
    """Kubernetes' reason, and what it means."""
    if not pod.node:
        reason = pod.unplaced or "Unschedulable"
        return reason, f"pod not scheduled ({reason})"
    if container is None:
        return "ContainerCreating", "the kubelet has not reported its containers"
    whose = f"init container {container.name}" if container.init else "its container"
    reason, before = container.reason or ("Running" if container.started else INITIALIZING), container.before
    if reason in IMAGE:
        return reason, f"image {container.image or 'of ' + whose} could not be pulled ({reason})"
    if before is not None:
        times = f"{container.restarts} time" + ("s" if container.restarts != 1 else "")
        return (
            reason,
            f"{whose} was restarted {times} in place and last exited with code {before.exit_code} ({reason})",
        )
    return (reason, f"{whose} is still {'running' if container.started else 'waiting'} ({reason})")
