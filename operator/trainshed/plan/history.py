"""The restart history in the status: the last restarts, their causes, and the time until the job ran again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from trainshed.api.job import Replica, Scope
from trainshed.api.objects import Pod
from trainshed.api.status import Failure, Restart, Status
from trainshed.api.status_codec import MAX_RECENT_RESTARTS

from . import obituary
from .facts import Facts
from .failures import main
from .restarts import Incident


def began(facts: Facts, incident: Incident, status: Status) -> Status:
    """Return the status with the restart for this incident in its history.

    An incident of Collateral failures only is added to the restart for the earlier failure that caused them.
    """
    members = restarted(facts, incident)
    if incident.cause is None and status.recent:
        *others, last = status.recent
        return replace(status, recent=(*others, replace(last, members=last.members + members)))
    member, failure = first(incident)
    known = obituary.of(facts, member, failure) if incident.cause else status.failure
    fresh = Restart(
        time=failure.time,
        attempt=status.retries.used + 1,
        member=str(member),
        node=failure.node,
        kind=failure.kind,
        reason=failure.reason,
        exit_code=failure.exit_code,
        members=members,
    )
    return replace(status, failure=known, recent=(*status.recent, fresh)[-MAX_RECENT_RESTARTS:])


def first(incident: Incident) -> tuple[Replica, Failure]:
    """Return the replica that failed first and its failure; a failure that no other caused goes first."""
    causes = ((member, failure) for member, failure in incident.failures.items() if failure is incident.cause)
    return next(causes, incident.first)


def restarted(facts: Facts, incident: Incident) -> int:
    """Return how many replicas restart because of an incident."""
    if facts.scope is Scope.REPLICA:
        return len(incident.failures)
    roles = {member.role for member in incident.failures}
    groups = (group for group in facts.job.replicas if facts.scope is Scope.JOB or group.role in roles)
    return sum(group.count for group in groups)


def ran_again(facts: Facts, status: Status) -> Status:
    """Return the status with the recovery times of restarts, once the job and the failed replica run again.

    They are computed from the start times of containers, so they are the same at every reconcile, and are stored with
    the next status update that is needed anyway. Restarts before a suspension have no recovery time.
    """
    if not (facts.running or facts.achieved) or all(restart.lost is not None for restart in status.recent):
        return status
    return replace(status, recent=tuple(_closed(facts, restart) for restart in status.recent))


def _closed(facts: Facts, restart: Restart) -> Restart:
    member = facts.seats.get(f"{facts.job.name}-{restart.member}")
    pod = facts.current.get(member) if member else None
    begun = facts.status.start
    started = _started(facts, pod) if pod else None
    if restart.lost is not None or started is None or (begun and restart.time < begun):
        return restart
    deciding = (other for replica, other in facts.current.items() if facts.goal and replica.role == facts.goal.role)
    last = max((started, *(time for other in deciding if (time := _started(facts, other)))))
    return replace(restart, lost=max(0, round((last - restart.time).total_seconds())))


def _started(facts: Facts, pod: Pod) -> datetime | None:
    own = main(pod, facts.own_container)
    return own.started if own else None
