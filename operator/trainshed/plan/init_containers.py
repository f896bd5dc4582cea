"""The init containers that the operator adds to a pod: where admission lets the framework's container, it lets them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

from trainshed.api.job import Document

#: Requests and limits beside a framework's container without any: the kubelet evicts pods without requests first.
SMALL = {"cpu": "100m", "memory": "64Mi"}
#: The resources that are copied; init containers run before the others, so the pod as a whole asks for no more.
COPIED = ("cpu", "memory", "ephemeral-storage")
#: The user of a container whose pod must not run as root, if nothing names one: many images leave it to be root.
NON_ROOT = 65532


def fitted(
    spec: Document, own: Document, containers: Collection[Document], needs: tuple[tuple[str, str], ...]
) -> list[Document]:
    """Return the containers with the security context and the resources of the framework's, and names of their own.

    A LimitRange or a quota that accepts the framework's container accepts them, too. `needs`, if there are any, are
    requests and limits instead. Containers that bring resources keep them. Where the whole pod has resources, the
    others have none.
    """
    if not containers:
        return []
    taken = {part.get("name") for field in ("containers", "initContainers") for part in spec.get(field) or ()}
    resources = _resources(own, dict(needs))
    found: list[Document] = []
    for container in containers:
        fit: dict[str, Any] = {"resources": resources, **container}
        fit["name"] = _free(str(container["name"]), taken)
        if spec.get("resources") and fit["resources"] != own.get("resources"):
            del fit["resources"]
        if context := {**(own.get("securityContext") or {}), **(container.get("securityContext") or {})}:
            fit["securityContext"] = context
        if _needs_user(spec, context) and container.get("image") != own.get("image"):
            fit["securityContext"] = {**context, "runAsUser": NON_ROOT}
        found.append(fit)
    return found


def _resources(own: Document, needs: dict[str, str]) -> Document:
    if needs:
        return {"limits": needs, "requests": needs}
    known = {part: _copied((own.get("resources") or {}).get(part)) for part in ("limits", "requests")}
    found = {part: amounts for part, amounts in known.items() if amounts}
    return found or {"limits": SMALL, "requests": SMALL}


def _copied(amounts: Document | None) -> Document:
    return {name: amount for name, amount in (amounts or {}).items() if name in COPIED}


def _free(name: str, taken: set[Any]) -> str:
    return name if name not in taken else next(f"{name}-{n}" for n in count(2) if f"{name}-{n}" not in taken)


def _needs_user(spec: Document, context: Document) -> bool:
    whole = {**(spec.get("securityContext") or {}), **context}
    return bool(whole.get("runAsNonRoot")) and not whole.get("runAsUser")
