"""How far a replica is: the stages of its pod, and when each of them began."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import IntEnum

from trainshed.api.job import Replica
from trainshed.api.objects import Container, Phase, Pod, start_of
from trainshed.api.status import Failure
from trainshed.api.time_spent import JobPhase

from .facts import Facts
from .failures import given_up


class Stage(IntEnum):
    """How far a replica is; the job is as far as the replica that is the least far.

    A replica that is `HELD_BACK` has no pod because others must run first. One that `STARTS` runs, but its probes do
    not say yet that it is ready.
    """

    FAILED = 0
    ABSENT = 1
    SCHEDULING = 2
    INIT = 3
    IMAGE_PULL = 4
    STARTS = 5
    HELD_BACK = 6
    RUNS = 7
    FINISHED = 8


Change = tuple[datetime, Stage]
Course = tuple[Stage, ...]
#: The stages of a pod that runs, and of one that has succeeded.
STARTED = Stage.SCHEDULING, Stage.IMAGE_PULL, Stage.STARTS, Stage.RUNS
ENDED = *STARTED, Stage.FINISHED


def usual_course(
    facts: Facts, pair: tuple[Replica, Pod], since: tuple[datetime, datetime | None], *, probed: bool
) -> tuple[Course, tuple[datetime, ...]] | None:
    """Return the stages of a pod that has only run, or succeeded after one run, with their times; None for any other.

    `since` is the beginning, and the same if all replicas ran then. This only saves time: `history` says the same.
    """
    (replica, pod), (begin, running) = pair, since
    if not (pod.quiet or _has_succeeded(pod)) or (probed and not pod.ready) or replica in facts.failed:
        return None
    own = facts.own_container(pod)
    if own is None or not (pod.scheduled or own.started) or (pod.quiet and facts.finished(replica)):
        return None
    created = pod.created or begin
    scheduled = max(created, pod.scheduled or created)
    started = own.started or created
    started = max(scheduled, running if running and created <= running < started else started)
    ready = max(started, (probed and pod.became_ready) or started)
    if pod.quiet:
        return STARTED, (created, scheduled, started, ready)
    return ENDED, (created, scheduled, started, ready, max(ready, own.finished or ready))


def _has_succeeded(pod: Pod) -> bool:
    """Return whether the pod has succeeded after one run of its one container, and nothing else was done with it."""
    if pod.phase is not Phase.SUCCEEDED or pod.deleting or pod.disruption or pod.reason or len(pod.containers) != 1:
        return False
    (own,) = pod.containers
    return own.exit_code == 0 and own.before is None and not own.restarts and not own.init and own.started is not None


def with_readiness(
    facts: Facts, history: Iterator[Change], pod: Pod, known: tuple[JobPhase | None, datetime]
) -> Iterator[Change]:
    """Yield the stages of a pod with a probe: its last run starts until it is ready, as far as that is known.

    `known` is a phase and its beginning. A run of when all replicas ran has been ready. One that is over was not, if it
    was not when this was looked at last; else nothing is known of its start. Kubernetes says when the whole pod became
    ready; if another container is not, this one has become so now.
    """
    (first, begin), changes = known, list(history)
    last = max((number for number, (_, stage) in enumerate(changes) if stage is Stage.RUNS), default=None)
    for number, (time, stage) in enumerate(changes):
        if number != last or (first is JobPhase.RUNNING and time <= begin):
            yield time, stage
            continue
        ready, over = facts.is_ready(pod), changes[number + 1 :]
        yield time, Stage.STARTS if ready or not over or first is JobPhase.PROGRAM_STARTUP else Stage.RUNS
        if ready:
            became = (pod.became_ready or time) if pod.ready else facts.now.replace(microsecond=0)
            yield min([max(time, became), *(end for end, _ in over)]), Stage.RUNS


def history(
    facts: Facts, pair: tuple[Replica, Pod], failure: Failure | None, running: datetime | None
) -> Iterator[Change]:
    """Yield the stages of a replica that has a pod, in order; `running` is a time at which it is known to have run.

    Of a container that was restarted more often, the kubelet reports the last two runs only.
    """
    replica, pod = pair
    created, own = pod.created or facts.job.created or facts.now, facts.own_container(pod)
    runs = list(_runs(own)) if own else []
    if runs and running and created <= running < runs[0][0]:
        runs[0] = running, runs[0][1]
    over = failure is None and (facts.finished(replica) or pod.over)
    found = list(_before_start(pod, created, begun=bool(runs)))
    for start, end in runs:
        found += [(start, Stage.RUNS), *([(end, Stage.FAILED)] if end else [])]
    if over:
        found[-1] = found[-1][0], Stage.FINISHED
    until = given_up(pod, failure) if failure else None
    latest = created
    for time, stage in found:
        if until and time >= until:
            break
        latest = max(latest, time)
        yield latest, stage
    if until:
        yield max(latest, until), Stage.FAILED


def traits(facts: Facts, pair: tuple[Replica, Pod]) -> object:
    """Return all that `history` depends on without a failure: many replicas of a large job have the same."""
    replica, pod = pair
    return replica.role, facts.finished(replica), pod.over, pod.created, pod.scheduled, pod.containers


def _before_start(pod: Pod, created: datetime, *, begun: bool) -> Iterator[Change]:
    """Yield the stages of a pod until its container runs; `begun` is whether it has run."""
    yield created, Stage.SCHEDULING
    if scheduled := pod.scheduled or (created if begun else None):
        yield scheduled, Stage.INIT
        if initialized := _initialized(pod, scheduled) or (scheduled if begun else None):
            yield initialized, Stage.IMAGE_PULL


def _initialized(pod: Pod, scheduled: datetime) -> datetime | None:
    """Return when the last init container of a pod ended, or ran if it is a sidecar; None if that is still to come."""
    ends = [
        container.started if container.sidecar else container.finished if container.exit_code == 0 else None
        for container in pod.containers
        if container.init
    ]
    return max((scheduled, *(end for end in ends if end))) if all(ends) else None


def _runs(own: Container) -> Iterator[tuple[datetime, datetime | None]]:
    """Yield begin and end of the last run of a container before this one, and of this one."""
    if own.before and own.before.finished:
        yield start_of(own.before) or own.before.finished, own.before.finished
    if own.exit_code is not None and own.finished:
        yield start_of(own) or own.finished, own.finished
    elif own.exit_code is None and own.started and not own.waiting:
        yield own.started, None
