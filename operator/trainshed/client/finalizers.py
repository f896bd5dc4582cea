"""Removes the job-tracking finalizer from one pod."""

from __future__ import annotations

from contextlib import suppress

from trainshed.api import status_codec
from trainshed.api.actions import ReleasePod
from trainshed.api.objects import Pod

from . import ApiError, Client, NameConflict, Reverted


async def release_finalizer(client: Client, pod: Pod) -> Pod | None:
    """Remove the finalizer from a pod at its known version; return the pod, None once it is gone.

    May raise an `ApiError`: `Reverted` if a webhook restores the finalizer.
    """
    patch = status_codec.finalizer_patch(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers))
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
