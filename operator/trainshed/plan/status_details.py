"""What a status says of the pods besides counts and conditions of a running job: the counts after a failure."""

from __future__ import annotations

from dataclasses import replace

from trainshed.api.status import ConditionType, ReplicaStatus, Status

from .facts import Facts


def counts_after_failure(facts: Facts) -> Status:
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
