"""Who may come in: into a namespace that is there and stays, and within its quota."""

from __future__ import annotations

from typing import Any

from .answers import forbidden, missing
from .pods import OVER
from .resources import NAMESPACES, PODS, QUOTAS, Resource
from .storage import Storage

Document = dict[str, Any]


def enter(storage: Storage, resource: Resource, namespace: str, name: str) -> None:
    """Raise `Refusal` if nothing may be made in this namespace."""
    if not resource.namespaced:
        return
    found = storage.get(NAMESPACES, namespace)
    if found is None:
        raise missing("namespaces", namespace)
    if found.document.get("status", {}).get("phase") == "Terminating":
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.full, name, why)


def count(storage: Storage, resource: Resource, namespace: str, name: str) -> None:
    """Raise `Refusal` if one pod more is more than a quota allows; that of a quota's status is told by `used`."""
    if resource is not PODS:
        return
    for key, quota in storage.table(QUOTAS).items():
        limit = quota.document.get("spec", {}).get("hard", {}).get("pods")
        if limit is None or not key.startswith(f"{namespace}/"):
            continue
        there = used(storage, namespace)
        if there + 1 > int(limit):
            own = quota.document["metadata"]["name"]
            why = f"exceeded quota: {own}, requested: pods=1, used: pods={there}, limited: pods={limit}"
            raise forbidden("pods", name, why)


def used(storage: Storage, namespace: str) -> int:
    """How many pods of a namespace a quota counts: those that are not over."""
    pods = storage.table(PODS).items()
    return sum(key.startswith(f"{namespace}/") and pod.document["status"].get("phase") not in OVER for key, pod in pods)
