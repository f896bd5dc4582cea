"""PaddleJob: all pods connect to the address of one, which itself must get that address as an IP."""

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
    Naming,
    Quorum,
    SuccessPolicy,
    Variable,
    literals,
)
from trainshed.api.job import Job, Replica, RestartPolicy, RestartScope
from trainshed.api.spec import Elasticity, JobSpec, ReplicaSpec, RunPolicyField, RunPolicySpec

PORT = 36543


class PaddleJobSpec(JobSpec):
    """The spec of a PaddleJob. v1 accepts an elastic policy and ignores it, and so does Trainshed."""

    run_policy: RunPolicyField = RunPolicySpec()
    elastic_policy: Elasticity | None = None
    paddle_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


def success_policy(job: Job) -> SuccessPolicy:
    """Return that the master defines success; in a job without one, all workers do, elastic or not."""
    if job.of("Master"):
        return SuccessPolicy("Master", Quorum.ALL, qualified=False)
    return SuccessPolicy("Worker", Quorum.ALL, qualified=True)


def environment(job: Job, _defaults: JobDefaults) -> Environment:
    """Return the variables of Paddle's launcher, in v1's order.

    A job with a master runs in parameter-server mode, one without in collective mode.
    """
    host = Replica("Master" if job.of("Master") else "Worker", 0)
    port = job.port(host.role, PORT)
    common = literals(PYTHONUNBUFFERED="1", PADDLE_JOB_ID=job.name, PADDLE_NNODES=str(job.size))
    # The launcher serves if the address equals its own IP, as text: a DNS name would never match.
    here = (
        Variable("POD_IP_DUMMY", source={"fieldRef": {"fieldPath": "status.podIP"}}),
        *literals(PADDLE_MASTER=f"$(POD_IP_DUMMY):{port}"),
    )
    there = literals(PADDLE_MASTER=f"{job.name}-{host}:{port}")

    def variables(replica: Replica) -> tuple[Variable, ...]:
        part = role_variables(replica) if job.of("Master") else rank_variables(replica)
        return (*common, *(here if replica == host else there), *part)

    return variables


def role_variables(replica: Replica) -> tuple[Variable, ...]:
    """Return the variables of a pod in parameter-server mode: it runs one server or one trainer."""
    return literals(PADDLE_SERVER_NUM="1") if replica.role == "Master" else literals(PADDLE_TRAINER_NUM="1")


def rank_variables(replica: Replica) -> tuple[Variable, ...]:
    """Return the rank in collective mode; the launcher's own order is by name, worker-10 before worker-2."""
    return literals(user_overridable=True, PADDLE_RANK=str(replica.index))


PADDLE = Framework(
    kind="PaddleJob",
    plural="paddlejobs",
    label="paddle",
    field="paddleReplicaSpecs",
    roles=("Master", "Worker"),
    spec=PaddleJobSpec,
    container=FrameworkContainer("paddle", "master", PORT),
    defaults=Defaults(restart_policy=RestartPolicy.ON_FAILURE),
    naming=Naming(ttl_event_reason="SuccessfulDeletePod"),
    hooks=Hooks(
        success_policy=success_policy,
        is_leader=lambda _job, replica: replica.role == "Master",
        scope=lambda _job: RestartScope.JOB,
        environment=environment,
    ),
    selectors=True,
)
