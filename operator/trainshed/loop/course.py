"""What has become of a job from one stored status to the next, in words that have an end: they are labels of meters."""

from __future__ import annotations

from datetime import timedelta

from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Kind, Status
from trainshed.plan.failures import APPLICATION, DISRUPTION, INFRASTRUCTURE

#: Why a job has failed, or was restarted: the spec cannot be, the time is over, or whose fault the failure was that
#: decided. Other is what the status does not tell.
INVALID, DEADLINE, OTHER = "Invalid", "Deadline", "Other"
CLASSES = (APPLICATION, INFRASTRUCTURE, DISRUPTION, OTHER)
VERDICTS = (INVALID, DEADLINE, *CLASSES)


def state(status: Status) -> str:
    """What a job is doing: the last thing that is true of it."""
    return next((str(condition.type) for condition in reversed(status.conditions) if condition.true), "New")


def became(kind: Kind, before: Status, after: Status) -> bool:
    """Whether this is true now and was not."""
    return after.true(kind) and not before.true(kind)


def restarted(before: Status, after: Status) -> bool:
    """Whether pods were given up on to be made again. Those of a job that is suspended are not."""
    if after.true(Kind.SUSPENDED):
        return False
    anew = any(count != before.attempts.get(role, 0) for role, count in after.attempts.items())
    return anew or not set(after.replacing) <= set(before.replacing)


def cause_of_restart(before: Status, after: Status) -> str:
    """The class of the failure that a restart answers."""
    newest = after.recent[-1].kind if after.recent and after.recent != before.recent else ""
    return newest if newest in CLASSES else OTHER


def cause_of_failure(snapshot: Snapshot, after: Status) -> str:
    """Why the verdict is that the job has failed; in the order in which the rules of the ladder speak."""
    job, failure = snapshot.job, after.failure
    if job.problems:
        return INVALID
    end = after.start + timedelta(seconds=job.policy.deadline) if after.start and job.policy.deadline else None
    if end is not None and snapshot.now >= end:
        return DEADLINE
    return failure.kind if failure and failure.kind in CLASSES else OTHER
