"""XGBoost: the master runs the tracker, and workers that find none listening give up within seconds."""

from __future__ import annotations

from trainshed.api.framework import Enough, Environment, Framework, Goal, Variable, literals
from trainshed.api.job import Job, Member, RestartPolicy, Scope
from trainshed.api.kernel import list_length, too_long
from trainshed.api.site import Site


def environment(job: Job, _site: Site) -> Environment:
    """v1's names; then the tracker's. XGBoost itself reads neither: the user's code passes them on."""
    host, port, size = f"{job.name}-master-0", str(job.port("Master", XGBOOST.port)), str(job.size)
    workers = hosts(job)
    peers = literals(WORKER_PORT=str(job.port("Worker", XGBOOST.port)), WORKER_ADDRS=workers) if workers else ()

    def variables(member: Member) -> tuple[Variable, ...]:
        rank = str(member.index + (0 if member.role == "Master" else 1))
        told = literals(MASTER_PORT=port, MASTER_ADDR=host, WORLD_SIZE=size, RANK=rank, PYTHONUNBUFFERED="1")
        tracker = {"DMLC_TRACKER_URI": host, "DMLC_TRACKER_PORT": port, "DMLC_TASK_ID": rank, "DMLC_NUM_WORKER": size}
        return (*told, *peers, *literals(yields=True, **tracker))

    return variables


def hosts(job: Job) -> str:
    """The workers by name; v1 gives this list to every pod."""
    return ",".join(f"{job.name}-worker-{index}" for index in range(job.size - 1))


def refuses(job: Job, _site: Site) -> tuple[str, ...]:
    """A list of workers that no process could be started with."""
    return too_long(job, XGBOOST.field, "WORKER_ADDRS", list_length(f"{job.name}-worker-0", max(job.size - 1, 0)))


XGBOOST = Framework(
    kind="XGBoostJob",
    plural="xgboostjobs",
    label="xgboost",
    field="xgbReplicaSpecs",
    roles=("Master", "Worker"),
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    restart_policy=RestartPolicy.NEVER,
    goal=lambda _job: Goal("Master", Enough.ALL, qualified=False),
    leads=lambda _job, member: member.role == "Master",
    scope=lambda _job: Scope.JOB,
    environment=environment,
    refuses=refuses,
    gate=lambda _job, member: "" if member.role == "Master" else "Master",
)
