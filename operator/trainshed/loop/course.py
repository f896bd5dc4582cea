"""Derive bounded metric labels from two consecutive stored statuses of a job."""

from __future__ import annotations

from datetime import timedelta

from trainshed.api.actions import Snapshot
from trainshed.api.status import ConditionType, Status
from trainshed.plan.failures import APPLICATION, DISRUPTION, INFRASTRUCTURE

#: Why a job failed or was restarted: its spec is invalid, its deadline has passed, or the class of its first failure.
#: `Other` means that the status has no class.
INVALID, DEADLINE, OTHER = "Invalid", "Deadline", "Other"
CLASSES = (APPLICATION, INFRASTRUCTURE, DISRUPTION, OTHER)
VERDICTS = (INVALID, DEADLINE, *CLASSES)


def state(status: Status) -> str:
    """Return the state of a job: the type of the last condition that is true."""
    return next((str(condition.type) for condition in reversed(status.conditions) if condition.true), "New")


def became(kind: ConditionType, before: Status, after: Status) -> bool:
    """Return whether this condition is true now and was not before."""
    return after.true(kind) and not before.true(kind)


def restarted(before: Status, after: Status) -> bool:
    """Return whether pods were given up to be created again; pods of a suspended job do not count."""
    if after.true(ConditionType.SUSPENDED):
        return False
    new_attempt = any(count != before.attempts.get(role, 0) for role, count in after.attempts.items())
    return new_attempt or not set(after.replacing) <= set(before.replacing)


def cause_of_restart(before: Status, after: Status) -> str:
    """Return the class of the failure that caused a restart."""
    newest = after.recent[-1].kind if after.recent and after.recent != before.recent else ""
    return newest if newest in CLASSES else OTHER


def cause_of_failure(snapshot: Snapshot, after: Status) -> str:
    """Return the class of a failed job; in the order in which the planner's rules apply."""
    job, failure = snapshot.job, after.failure
    if job.problems:
        return INVALID
    end = after.start + timedelta(seconds=job.policy.deadline) if after.start and job.policy.deadline else None
    if end is not None and snapshot.now >= end:
        return DEADLINE
    return failure.kind if failure and failure.kind in CLASSES else OTHER
