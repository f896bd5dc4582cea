"""XGBoostJob: the master runs the tracker; workers start after it, because they fail within seconds without it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainshed.api.framework import (
    Defaults,
    Environment,
    Framework,
    FrameworkContainer,
    Hooks,
    JobDefaults,
    Quorum,
    StartOrder,
    SuccessPolicy,
    Variable,
    literals,
)
from trainshed.api.job import Job, Replica, RestartPolicy, RestartScope
from trainshed.api.spec import JobSpec, ReplicaSpec, RunPolicyField, RunPolicySpec
from trainshed.api.validation import list_length, required_role, single_replica, variable_too_long

FIELD = "xgbReplicaSpecs"
PORT = 9999


class XGBoostJobSpec(JobSpec):
    """The spec of an XGBoostJob."""

    run_policy: RunPolicyField = RunPolicySpec()
    xgb_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


def environment(job: Job, _defaults: JobDefaults) -> Environment:
    """Return v1's variables, then the tracker's.

    XGBoost itself reads neither; the user's code passes them.
    """
    host, port, size = f"{job.name}-master-0", str(job.port("Master", PORT)), str(job.size)
    workers = hosts(job)
    peers = literals(WORKER_PORT=str(job.port("Worker", PORT)), WORKER_ADDRS=workers) if workers else ()

    def variables(replica: Replica) -> tuple[Variable, ...]:
        rank = str(replica.index + (0 if replica.role == "Master" else 1))
        from_v1 = literals(MASTER_PORT=port, MASTER_ADDR=host, WORLD_SIZE=size, RANK=rank, PYTHONUNBUFFERED="1")
        tracker = {"DMLC_TRACKER_URI": host, "DMLC_TRACKER_PORT": port, "DMLC_TASK_ID": rank, "DMLC_NUM_WORKER": size}
        return (*from_v1, *peers, *literals(user_overridable=True, **tracker))

    return variables


def hosts(job: Job) -> str:
    """Return the names of the workers, comma-separated; v1 gives this list to every pod."""
    return ",".join(f"{job.name}-worker-{index}" for index in range(job.size - 1))


def validate(job: Job, _defaults: JobDefaults) -> tuple[str, ...]:
    """Return a problem if the list of workers is too long for an environment variable."""
    return variable_too_long(job, FIELD, "WORKER_ADDRS", list_length(f"{job.name}-worker-0", max(job.size - 1, 0)))


XGBOOST = Framework(
    kind="XGBoostJob",
    plural="xgboostjobs",
    label="xgboost",
    field=FIELD,
    roles=("Master", "Worker"),
    spec=XGBoostJobSpec,
    rules=(required_role(FIELD, "Master"), single_replica(FIELD, "Master", default=False)),
    container=FrameworkContainer("xgboost", "xgboostjob-port", PORT),
    defaults=Defaults(restart_policy=RestartPolicy.NEVER),
    hooks=Hooks(
        success_policy=lambda _job: SuccessPolicy("Master", Quorum.ALL, qualified=False),
        is_leader=lambda _job, replica: replica.role == "Master",
        scope=lambda _job: RestartScope.JOB,
        environment=environment,
        validate=validate,
        start_after=lambda _job, role: None if role == "Master" else StartOrder("Master"),
    ),
)
