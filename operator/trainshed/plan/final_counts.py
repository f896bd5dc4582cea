"""The counts of replicas of a job that ends or has ended: they are its result."""

from __future__ import annotations

from msgspec.structs import replace

from trainshed.api.status import ConditionType, ReplicaStatus, Status

from .facts import Facts


def after_success(facts: Facts, status: Status) -> Status:
    """Return the status of a job that succeeds: the active replicas count as succeeded, as in v1."""
    dependent_role = facts.goal.depends_on if facts.goal else ""
    counts = {
        role: ReplicaStatus() if role == dependent_role else _active_as_succeeded(count)
        for role, count in status.replica_statuses.items()
        if role in facts.groups
    }
    return replace(status, replica_statuses=counts)


def _active_as_succeeded(replica_status: ReplicaStatus) -> ReplicaStatus:
    return replace(replica_status, succeeded=replica_status.succeeded + replica_status.active, active=0, ready=0)


def with_pods_left(facts: Facts, status: Status) -> Status:
    """Return the status with the pods that hold resources as its active ones; the other counts are the job's result."""
    holding = facts.roles.count(facts.holding, foreign=True)
    counts = {
        role: replace(status.replica_statuses.get(role, ReplicaStatus()), active=0, not_running=holding[role])
        for role in dict.fromkeys((*status.replica_statuses, *holding))
    }
    return replace(status, replica_statuses=counts)


def after_failure(facts: Facts) -> Status:
    """Return the stored status with the active and ready pods of now; of a job that succeeded, the stored status.

    How many replicas had failed or succeeded when the job failed is its result, and stays. So does the whole status
    while the spec is invalid: it does not tell which pods are replicas.
    """
    if not facts.status.true(ConditionType.FAILED) or facts.job.problems:
        return facts.status
    counts = {
        role: _counts(stored, facts.replica_statuses.get(role, ReplicaStatus()))
        for role, stored in facts.status.replica_statuses.items()
    }
    return replace(facts.status, replica_statuses=counts)


def _counts(stored: ReplicaStatus, observed: ReplicaStatus) -> ReplicaStatus:
    return replace(stored, active=observed.active, ready=observed.ready)
