"""Removes the job-tracking finalizer from one pod."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from trainshed.api import patches
from trainshed.api.actions import ReleasePod
from trainshed.api.objects import Pod

from . import ApiError, Client, Conflict, NameConflict, Reverted


async def release_finalizer(client: Client, pod: Pod) -> Pod | None:
    """Remove the finalizer from a pod, in whatever state it is by now; return the pod, None once it is gone.

    It is removed at the known version, or after a conflict from the pod as it is read then: others may change it all
    the time. May raise an `ApiError`: `Conflict` if another pod has the name, `Reverted` if a webhook restores it.
    """
    try:
        return await _release(client, pod)
    except Conflict:
        found = await client.read_pod(pod.namespace, pod.name)
        if found is not None and found.uid != pod.uid:
            raise
    if found is None or not found.has_finalizer:
        return found
    return await _release(client, replace(found, version=""))


async def _release(client: Client, pod: Pod) -> Pod | None:
    patch = patches.finalizer_patch(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers))
    found = await client.release_pod(pod.namespace, pod.name, patch)
    require_released(pod.name, found)
    return found


def require_released(name: str, found: Pod | None) -> None:
    """Raise `Reverted` if a pod whose finalizer was removed has it all the same."""
    if found is not None and found.has_finalizer:
        raise Reverted(f"the finalizer of pod {name} was removed, but an admission webhook has restored it")


async def release_unselected(client: Client, error: ApiError) -> Pod | None:
    """Remove the finalizer from the terminating pod that has the name of another one, if it lacks the job label.

    No watch selects such a pod, so no reconcile of its own job would release it. Return it if it has the finalizer
    still, because it is not terminating yet, or because of an error.
    """
    pod = error.pod if isinstance(error, NameConflict) else None
    if pod is None or pod.job or not pod.has_finalizer:
        return None
    if pod.deleting:
        with suppress(ApiError):
            await release_finalizer(client, pod)
            return None
    return pod
