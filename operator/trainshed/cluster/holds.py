"""Pods that are held by our finalizer: whether there is still somebody to note their results, and letting them go."""

from __future__ import annotations

from trainshed.api import write
from trainshed.api.actions import ReleasePod
from trainshed.api.pod import Pod
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

from . import Cluster

#: Whoever else runs jobs of other kinds, or of the other version of MPIJob, may hold pods as well.
EVERY_KIND = (*FRAMEWORKS, MPI_VERSIONS["v2beta1"])


async def bereaved(cluster: Cluster, pod: Pod) -> bool:
    """Whether the job that owns this pod is gone, by the server's own word; may raise a `ClusterError`."""
    for framework in EVERY_KIND:
        job = await cluster.read_job(framework, pod.namespace, pod.job)
        if job is not None and job["metadata"]["uid"] == pod.owner:
            return False
    return True


async def let_go(cluster: Cluster, pod: Pod) -> Pod | None:
    """Take our finalizer off a pod, at the version that is known; what remains of it. May raise a `ClusterError`."""
    patch = write.release(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers))
    return await cluster.release_pod(pod.namespace, pod.name, patch)
