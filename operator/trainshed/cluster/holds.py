"""Pods with Trainshed's finalizer: whether their job still exists, and the removal of the finalizer."""

from __future__ import annotations

from trainshed.api import status_codec
from trainshed.api.actions import ReleasePod
from trainshed.api.objects import Pod
from trainshed.cluster import Cluster
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

#: All kinds, and both versions of MPIJob: another operator may run kinds that this one does not.
EVERY_KIND = (*FRAMEWORKS, MPI_VERSIONS["v2beta1"])


async def bereaved(cluster: Cluster, pod: Pod) -> bool:
    """Return whether the job that owns this pod no longer exists, read from the server; may raise a `ClusterError`."""
    for framework in EVERY_KIND:
        job = await cluster.read_job(framework, pod.namespace, pod.job)
        if job is not None and job["metadata"]["uid"] == pod.owner:
            return False
    return True


async def let_go(cluster: Cluster, pod: Pod) -> Pod | None:
    """Remove the finalizer from a pod at its known version; return the pod, None once it is gone.

    May raise a `ClusterError`.
    """
    patch = status_codec.finalizer_patch(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers))
    return await cluster.release_pod(pod.namespace, pod.name, patch)
