"""An MPIJob as a TrainJob: Trainer enters the nodes by ssh, as MPIJobs of v2beta1 do."""

from __future__ import annotations

from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework, JobDefaults, Variable
from trainshed.api.job import Document, Job, ReplicaGroup
from trainshed.frameworks import mpi
from trainshed.frameworks.mpi_v2beta1 import MPIJobV2Options

from .layout import NODE, Layout, ReplicatedJob
from .losses import TO_TRAINJOB, Loss, NotConvertible, loss

LAUNCHER, WORKER = "Launcher", "Worker"
POLICY = "mpi"
FIELD = "mpiReplicaSpecs"
#: The variables that Trainer sets itself, and those of v1 that start ranks by kubectl exec.
SET_BY_TRAINER = (
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
)
BY_EXEC = (
    *("OMPI_MCA_plm_rsh_agent", "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC"),
    *("PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC"),
)
SSHD = ["/usr/sbin/sshd", "-De"]


def layout(_document: Document, job: Job, framework: Framework) -> tuple[Layout, str, tuple[Loss, ...]]:
    """Return the launcher and its nodes, the name of Trainer's policy, and what changes.

    Raises:
        NotConvertible: The job uses another MPI than Open MPI.
    """
    options = job.options_as(MPIJobV2Options)
    by_exec = framework.version == "v1"
    if not by_exec and options.implementation != "OpenMPI":
        raise NotConvertible("spec.mpiImplementation", f"{options.implementation}: Trainer knows only OpenMPI")
    environment = framework.hooks.environment(job, JobDefaults())
    named = [(group, LAUNCHER.lower() if group.role == LAUNCHER else NODE) for group in job.groups if group.count]
    # The hosts stand in the order of the roles in Trainer's hostfile: a launcher that computes is the first, as here. A
    # role that waits for another stands after it.
    if framework.hooks.start_after(job, LAUNCHER):
        named.reverse()
    targets = tuple(ReplicatedJob(name, tuple(group.replicas)) for group, name in named)
    variables: dict[str, tuple[Variable, ...]] = {}
    for target in targets:
        given = environment(target.members[0])
        variables[target.name] = tuple(one for one in given if one.name not in (*SET_BY_TRAINER, *BY_EXEC))
    return Layout(targets, variables), POLICY, tuple(_losses(job) if by_exec else ())


def _losses(job: Job) -> list[Loss]:
    found = [loss(TO_TRAINJOB, "exec", "apiVersion")]
    workers = job.of(WORKER)
    containers = as_mapping(workers.template.get("spec")).get("containers") if workers else None
    if containers and containers[0].get("command"):
        path = f"spec.{FIELD}[{WORKER}].template.spec.containers[0].command"
        found.append(loss(TO_TRAINJOB, "worker-command", path))
    return found


def policy(job: Job) -> dict[str, Any]:
    """Return Trainer's policy for the job."""
    found = job.options_as(MPIJobV2Options)
    slots = getattr(job.options, "slots", 1)
    fields = {"numProcPerNode": slots, "mpiImplementation": "OpenMPI", "sshAuthMountPath": found.ssh_path}
    return {"mpi": {**fields, "runLauncherAsNode": _computes(job)}}


def _computes(job: Job) -> bool:
    """Return whether the launcher is a host of ranks."""
    options = job.options
    return options.launcher_is_worker if isinstance(options, MPIJobV2Options) else mpi.computes(job)


def trainer(job: Job, made: Layout) -> dict[str, Any]:
    """Return what the TrainJob says of its trainer: the number of nodes, and of processes on each."""
    workers = sum(len(target.members) for target in made.targets if target.name == NODE)
    return {"numNodes": max(workers + _computes(job), 1), "numProcPerNode": getattr(job.options, "slots", 1)}


def with_sshd(group: ReplicaGroup, container: dict[str, Any]) -> dict[str, Any]:
    """Return the container of a worker so that it runs sshd, unless it has a command."""
    has_command = container.get("command") or container.get("args")
    return container if group.role != WORKER or has_command else {**container, "command": list(SSHD)}
