"""The start-up deadline: replicas that do not start running in time, and the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from trainshed.api.job import Replica
from trainshed.api.objects import Container, Pod
from trainshed.api.status import ConditionType, Failure

from . import failures, obituary
from .conditions import Word
from .facts import Facts

#: Reasons of containers that wait for their image (kubelet/images/types.go).
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
#: The reason of a container that waits for init containers.
INITIALIZING = "PodInitializing"


def late(facts: Facts) -> tuple[Replica, Failure] | None:
    """Return the first replica whose container has not started running in time, with its failure, or None.

    The time begins with the creation of the pod, by the API server's clock; a pod that is created again has the full
    time again. A container that has run and exited is not late, unless it ran for less than that time and now waits to
    be restarted.
    """
    found = [(end, pod.name, member, pod) for member, pod in facts.current.items() if (end := _due(facts, pod))]
    over = sorted(
        ((end, name, member, pod) for end, name, member, pod in found if facts.now >= end), key=lambda at: at[:2]
    )
    return next(((member, _failure(facts, member, pod)) for _, _, member, pod in over), None)


def next_look(facts: Facts) -> datetime | None:
    """Return when the next replica will exceed the start-up deadline, or None."""
    ends = (_due(facts, pod) for pod in facts.current.values())
    return min((end for end in ends if end and end > facts.now), default=None)


def word(facts: Facts, failure: Failure) -> Word:
    """Return the condition Failed because of this failure."""
    job = facts.job
    message = f"{job.kind} {job.name} has failed because {obituary.sentence(failure)}"
    return Word(ConditionType.FAILED, f"{job.kind}{ConditionType.FAILED}", message)


def _due(facts: Facts, pod: Pod) -> datetime | None:
    """Return the deadline of this pod; None if it runs, is finished or terminating, or if no time is set."""
    seconds = facts.job.startup_deadline
    if seconds is None or pod.created is None or pod.over or pod.deleting:
        return None
    time = timedelta(seconds=seconds)
    own = failures.main(pod, facts.own_container)
    return pod.created + time if own is None or _not_started(pod.created, own, time) else None


def _not_started(created: datetime, own: Container, time: timedelta) -> bool:
    if own.started is not None or own.exit_code is not None:
        return False
    if own.before is None or own.before.finished is None:
        return own.restarts == 0
    ended = own.before.finished
    began = own.before.started if own.before.started and own.before.started >= created else ended
    return began < created + time and ended - began < time


def _failure(facts: Facts, member: Replica, pod: Pod) -> Failure:
    container = _culprit(pod, failures.main(pod, facts.own_container))
    reason, problem = _problem(pod, container)
    seconds = facts.job.startup_deadline or 0
    found = Failure(
        pod=pod.name,
        kind=failures.classed(reason) or failures.INFRASTRUCTURE,
        reason=reason,
        exit_code=container.before.exit_code if container and container.before else None,
        node=pod.node,
        termination_message=(container.message if container and pod.node else pod.unschedulable)[
            -failures.LAST_WORDS :
        ],
        time=facts.now,
    )
    where = f" on {pod.node}" if pod.node else ""
    message = f"{member}{where} did not start running within {obituary.span(seconds)} of pod creation: {problem}"
    return replace(obituary.of(facts, member, found), message=message)


def _culprit(pod: Pod, own: Container | None) -> Container | None:
    """Return the container that is not running: the framework's own, or the first init container not finished."""
    if own is not None and own.reason not in ("", INITIALIZING):
        return own
    inits = (container for container in pod.containers if container.init)
    undone = (item for item in inits if (item.started is None if item.sidecar else item.exit_code != 0))
    return next(undone, own)


def _problem(pod: Pod, container: Container | None) -> tuple[str, str]:
    """Return Kubernetes' reason, and a description of the problem."""
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
