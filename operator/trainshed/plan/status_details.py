"""What changes in a status while its conditions stay: how many pods have been created, the counts after a failure."""

from __future__ import annotations

from dataclasses import replace

from trainshed.api.status import ConditionType, ReplicaStatus, Status

from . import conditions
from .facts import Facts

#: From this number of missing pods on, their creation takes so long that the status says how far it has got.
MANY = 200


def with_progress(facts: Facts, status: Status, plain: str) -> Status:
    """Return the status with the number of created pods after the `plain` message of Created while many are missing."""
    known = status.condition(ConditionType.CREATED)
    size, missing = facts.job.size, len(facts.missing)
    if missing >= MANY:
        message = f"{plain} {size - missing} of {size} pods created"
        return conditions.set_message(status, ConditionType.CREATED, message, facts.now)
    done = known is not None and known.message.startswith(f"{plain} ")
    return conditions.set_message(status, ConditionType.CREATED, plain, facts.now) if done else status


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
