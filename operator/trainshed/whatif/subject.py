"""The job that is asked about, ready to be run in virtual time."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from trainshed.api.framework import Framework, child_name
from trainshed.api.job import Job, ProgressSource, Replica, RestartScope, ServiceForm
from trainshed.fit.amounts import UNIT
from trainshed.fit.demands import devices, pod_devices
from trainshed.frameworks import ALL_VERSIONS
from trainshed.frameworks.pytorch import PyTorchJobOptions

#: Any uid: jobs without one have no pods.
UID = "what-if"


class Unpredictable(ValueError):
    """Nothing can be predicted about a job; the text says why."""


class VirtualJob(msgspec.Struct, frozen=True):
    """A job with what its virtual pods need.

    `goal` is the role whose replicas end when the training is done. `minimum` is the number of workers that train
    without the others, None if all have to be there. `resources` are the devices that the job requests, and `held` is
    how many of each a pod of a role has, and one for the pod itself.
    """

    job: Job
    goal: str
    replicas: dict[str, Replica]
    resources: tuple[str, ...]
    held: dict[str, tuple[float, ...]]
    minimum: int | None = None
    together: bool = True

    @property
    def framework(self) -> Framework:
        """The kind of the job."""
        return ALL_VERSIONS[self.job.api_version, self.job.kind]


def prepared(job: Job) -> VirtualJob:
    """Return a valid job as it is run: not suspended, and with what it asks of its reports left out.

    Raises `Unpredictable` for a job without replicas that would end it.
    """
    framework = ALL_VERSIONS[job.api_version, job.kind]
    policy = replace(job.policy, suspend=False, managed_elsewhere=False)
    job = replace(
        job,
        uid=UID,
        version="1",
        policy=policy,
        services=ServiceForm.JOB,
        track_results=False,
        progress=ProgressSource.NONE,
        hang_deadline=None,
        record=False,
    )
    goal = framework.hooks.success_policy(job)
    if goal is None or not (group := job.of(goal.role)) or not group.count:
        raise Unpredictable(f"{job.kind} {job.name} has no replica whose end would be its success")
    resources = tuple(sorted(devices(job)))
    each = {group.role: pod_devices(group.template.get("spec") or {}) for group in job.groups}
    scope = job.scope or framework.hooks.scope(job)
    elastic = job.options_as(PyTorchJobOptions).elastic if scope is RestartScope.REPLICA else None
    return VirtualJob(
        job=job,
        goal=goal.role,
        replicas={child_name(job, replica): replica for replica in job.all_replicas},
        resources=resources,
        held={role: (*(found.get(name, 0) / UNIT for name in resources), 1.0) for role, found in each.items()},
        minimum=max(1, elastic.minimum) if elastic else None,
        together=scope is RestartScope.JOB,
    )
