"""Removes the job-tracking finalizer from pods whose job is gone."""

from __future__ import annotations

from trainshed.api.objects import Pod
from trainshed.client import Client
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

#: All kinds, and both versions of MPIJob: another operator may run kinds that this one does not.
ALL_FRAMEWORKS = (*FRAMEWORKS, MPI_VERSIONS["v2beta1"])


async def owner_is_gone(cluster: Client, pod: Pod) -> bool:
    """Return whether the job that owns this pod no longer exists, read from the server; may raise a `ClusterError`."""
    for framework in ALL_FRAMEWORKS:
        job = await cluster.read_job(framework, pod.namespace, pod.job)
        if job is not None and job["metadata"]["uid"] == pod.owner:
            return False
    return True
