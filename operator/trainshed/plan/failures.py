"""What a pod's end says: its own fault, the infrastructure's, somebody taking it away, or the end of another."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from trainshed.api.job import Document
from trainshed.api.pod import Container, Phase, Pod
from trainshed.api.status import Failure

APPLICATION = "Application"
INFRASTRUCTURE = "Infrastructure"
DISRUPTION = "Disruption"
COLLATERAL = "Collateral"

#: Reasons that the kubelet or a controller writes into `status.reason` of a pod it takes off its node.
TAKEN_AWAY = frozenset({"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated", "NodeLost"})
#: A message is kept to so many characters, its end rather than its beginning: that is where tracebacks say it.
LAST_WORDS = 1024


def failure(pod: Pod, framework_container: str, now: datetime) -> Failure | None:
    """The failure that this pod shows, or None while it does well; `now` dates what the pod does not."""
    if pod.phase is Phase.SUCCEEDED:
        return None
    if pod.deleting or pod.disruption:
        return _failure(pod, DISRUPTION, pod.disruption or "Deleted", None, now)
    if pod.phase is not Phase.FAILED:
        return None
    if pod.reason in TAKEN_AWAY:
        return _failure(pod, DISRUPTION, pod.reason, None, now)
    ended = culprit(pod, framework_container)
    if ended is None or ended.exit_code is None:
        return _failure(pod, INFRASTRUCTURE, pod.reason or "NoExitCode", None, now)
    return _failure(pod, APPLICATION, ended.reason or "Error", ended, now)


def desertion(pod: Pod, served: Pod, now: datetime) -> Failure | None:
    """How a pod has failed one that has succeeded: it went, ended or was started again before that one was done.

    MPI launchers have been seen to end with 0 when they lose a worker (Open MPI 5.0.7, 19 times of 24).
    """
    if pod.deleting or pod.disruption or pod.reason in TAKEN_AWAY:
        return _failure(pod, DISRUPTION, pod.disruption or pod.reason or "Deleted", None, now)
    for container in pod.containers:
        early = any(_before(container.finished, other) for other in served.containers) if pod.over else False
        anew = any(_within(container.started, other) for other in served.containers) if container.restarts else False
        if early or anew:
            word = "it ended" if early else "it was started again"
            message = f"{word} before {served.name} had succeeded, whose success therefore says nothing"
            return replace(_failure(pod, APPLICATION, "EndedEarly", container, now), message=message)
    return None


def main(pod: Pod, framework_container: str) -> Container | None:
    """The framework's own container: the one that bears its name, or the first."""
    proper = [container for container in pod.containers if not container.init]
    named = (container for container in proper if container.name == framework_container)
    return next(named, proper[0] if proper else None)


def culprit(pod: Pod, framework_container: str) -> Container | None:
    """The container whose end failed the pod: the framework's own if it ended badly, or another that did."""
    own = main(pod, framework_container)
    if own and own.exit_code:
        return own
    bad = (container for container in pod.containers if container.exit_code)
    return next(bad, own)


def grace(template: Document) -> int | None:
    """Seconds that a survivor of a restart has to end in: few, unless its template asks for a time of its own.

    Python as PID 1 has no handler for SIGTERM and would sit out the whole default of 30 s.
    """
    spec = template.get("spec")
    own = isinstance(spec, dict) and spec.get("terminationGracePeriodSeconds") is not None
    return None if own else 3


def _failure(pod: Pod, kind: str, reason: str, ended: Container | None, now: datetime) -> Failure:
    message = (ended.message if ended else "") or pod.message
    return Failure(
        pod=pod.name,
        kind=kind,
        reason=reason,
        exit_code=ended.exit_code if ended else None,
        node=pod.node,
        message=message.strip()[-LAST_WORDS:],
        time=ended.finished if ended and ended.finished else now,
    )


def _before(time: datetime | None, other: Container) -> bool:
    return time is not None and not other.init and other.finished is not None and time < other.finished


def _within(time: datetime | None, other: Container) -> bool:
    return time is not None and _before(time, other) and other.started is not None and time > other.started
