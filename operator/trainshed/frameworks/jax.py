"""JAXJob: process 0 is the coordinator; if one process fails, all restart, because the others cannot continue."""

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
from trainshed.api.spec import JobSpec, ReplicaSpec, RunPolicyField, RunPolicySpec

PORT = 6666


class JAXJobSpec(JobSpec):
    """The spec of a JAXJob."""

    run_policy: RunPolicyField = RunPolicySpec()
    jax_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


def environment(job: Job, _defaults: JobDefaults) -> Environment:
    """Return v1's variables, then JAX's own.

    JAX reads only its coordinator address from the environment by itself; the user's code passes the others.
    """
    host, port, size = f"{job.name}-worker-0", str(job.port("Worker", PORT)), str(job.size)
    v1 = literals(PYTHONUNBUFFERED="1", COORDINATOR_PORT=port, COORDINATOR_ADDRESS=host, NUM_PROCESSES=size)
    jax = literals(user_overridable=True, JAX_COORDINATOR_ADDRESS=f"{host}:{port}", JAX_NUM_PROCESSES=size)

    def variables(replica: Replica) -> tuple[Variable, ...]:
        index = str(replica.index)
        return (*v1, *literals(PROCESS_ID=index), *jax, *literals(user_overridable=True, JAX_PROCESS_ID=index))

    return variables


JAX = Framework(
    kind="JAXJob",
    plural="jaxjobs",
    label="jax",
    field="jaxReplicaSpecs",
    roles=("Worker",),
    spec=JAXJobSpec,
    container=FrameworkContainer("jax", "jaxjob-port", PORT),
    defaults=Defaults(
        restart_policy=RestartPolicy.NEVER,
        cascade_window=100,  # jax.distributed declares a process dead after that time without a heartbeat
    ),
    naming=Naming(ttl_event_reason="SuccessfulDeletePod"),
    hooks=Hooks(
        success_policy=lambda _job: SuccessPolicy("Worker", Quorum.ALL, qualified=True),
        is_leader=lambda _job, replica: replica.index == 0,
        scope=lambda _job: RestartScope.JOB,
        environment=environment,
    ),
    selectors=True,
)
