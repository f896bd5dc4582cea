"""JAX: process 0 coordinates, and a group of processes that has lost one cannot go on."""

from __future__ import annotations

from trainshed.api.framework import Enough, Environment, Framework, Goal, Variable, literals
from trainshed.api.job import Job, Member, RestartPolicy, Scope
from trainshed.api.site import Site


def environment(job: Job, _site: Site) -> Environment:
    """v1's names; then JAX's own, of which it reads the address itself and has the others passed by the user's code."""
    host, port, size = f"{job.name}-worker-0", str(job.port("Worker", JAX.port)), str(job.size)
    told = literals(PYTHONUNBUFFERED="1", COORDINATOR_PORT=port, COORDINATOR_ADDRESS=host, NUM_PROCESSES=size)
    read = literals(yields=True, JAX_COORDINATOR_ADDRESS=f"{host}:{port}", JAX_NUM_PROCESSES=size)

    def variables(member: Member) -> tuple[Variable, ...]:
        index = str(member.index)
        return (*told, *literals(PROCESS_ID=index), *read, *literals(yields=True, JAX_PROCESS_ID=index))

    return variables


JAX = Framework(
    kind="JAXJob",
    plural="jaxjobs",
    label="jax",
    field="jaxReplicaSpecs",
    roles=("Worker",),
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    restart_policy=RestartPolicy.NEVER,
    goal=lambda _job: Goal("Worker", Enough.ALL, qualified=True),
    leads=lambda _job, member: member.index == 0,
    scope=lambda _job: Scope.JOB,
    environment=environment,
    selectors=True,
    follows_within=100,  # jax.distributed takes a process for lost after that time without a heartbeat
    farewell="SuccessfulDeletePod",
)
