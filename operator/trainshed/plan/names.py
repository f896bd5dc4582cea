"""The names and labels by which we know our own; all but the attempt are v1's, to the letter."""

from __future__ import annotations

from trainshed.api.framework import Framework
from trainshed.api.job import ALONE, Job, Member

OPERATOR_NAME = "training.kubeflow.org/operator-name"
JOB_NAME = "training.kubeflow.org/job-name"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
JOB_ROLE = "training.kubeflow.org/job-role"
#: An annotation: which try of its role a pod belongs to.
ATTEMPT = "trainshed.dev/attempt"


def child(job: Job, member: Member) -> str:
    """The name of a member's pod and of its Service."""
    return f"{job.name}-{member}"


def labels(framework: Framework, job: Job, member: Member) -> dict[str, str]:
    """The labels of a member's pod and Service, and what its Service selects by."""
    number = {} if member.role in ALONE else {REPLICA_INDEX: str(member.index)}
    return role_labels(framework, job, member.role) | number


def role_labels(framework: Framework, job: Job, role: str) -> dict[str, str]:
    """The labels that all members of a role share."""
    return job_labels(framework, job) | {REPLICA_TYPE: role.lower()}


def job_labels(framework: Framework, job: Job) -> dict[str, str]:
    """The labels that all members of a job share."""
    return {OPERATOR_NAME: framework.operator_name, JOB_NAME: job.name}


def selector(framework: Framework, job: Job, role: str) -> str:
    """The same as text, sorted, for `status.replicaStatuses` and the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in sorted(role_labels(framework, job, role).items()))
