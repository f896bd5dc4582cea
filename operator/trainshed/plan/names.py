"""The names and labels of pods and Services; all but the attempt are v1's, to the letter."""

from __future__ import annotations

from trainshed.api.framework import Framework
from trainshed.api.job import SINGLETON_ROLES, Job, Replica

OPERATOR_NAME = "training.kubeflow.org/operator-name"
JOB_NAME = "training.kubeflow.org/job-name"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
JOB_ROLE = "training.kubeflow.org/job-role"
#: An annotation: the attempt of its role that a pod belongs to.
ATTEMPT = "trainshed.dev/attempt"


def child(job: Job, member: Replica) -> str:
    """Return the name of the pod and the Service of a replica."""
    return f"{job.name}-{member}"


def labels(framework: Framework, job: Job, member: Replica) -> dict[str, str]:
    """Return the labels of the pod and the Service of a replica; they are also the selector of its Service."""
    number = {} if member.role in SINGLETON_ROLES else {REPLICA_INDEX: str(member.index)}
    return role_labels(framework, job, member.role) | number


def role_labels(framework: Framework, job: Job, role: str) -> dict[str, str]:
    """Return the labels that all replicas of a role share."""
    return job_labels(framework, job) | {REPLICA_TYPE: role.lower()}


def job_labels(framework: Framework, job: Job) -> dict[str, str]:
    """Return the labels that all replicas of a job share."""
    return {OPERATOR_NAME: framework.operator_name, JOB_NAME: job.name}


def selector(framework: Framework, job: Job, role: str) -> str:
    """Return the labels of a role as a sorted selector, for `status.replicaStatuses` and the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in sorted(role_labels(framework, job, role).items()))
