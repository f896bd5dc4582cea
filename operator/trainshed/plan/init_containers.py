"""The init containers that the operator adds to a pod: as restricted as the framework's container, and small."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from trainshed.api.job import Document

#: Requests and limits of a container that brings none; a quota may demand both, and a LimitRange may allow little.
SMALL = {"cpu": "100m", "memory": "64Mi"}
#: The user of a container whose pod must not run as root, if nothing names one: many images leave it to be root.
NOBODY = 65532


def fitted(
    spec: Document, own: Document, containers: Iterable[Document], needs: tuple[tuple[str, str], ...]
) -> list[Document]:
    """Return the containers with the security context of the framework's, resources, and names that the pod has not.

    `needs` are requests and limits of those that bring none. Under resources of the whole pod they get none.
    """
    taken = {part.get("name") for field in ("containers", "initContainers") for part in spec.get(field) or ()}
    amounts = dict(needs) or SMALL
    found: list[Document] = []
    for container in containers:
        fit: dict[str, Any] = {"resources": {"limits": amounts, "requests": amounts}, **container}
        fit["name"] = _free(str(container["name"]), taken)
        if spec.get("resources") and fit["resources"] != own.get("resources"):
            del fit["resources"]
        if context := {**(own.get("securityContext") or {}), **(container.get("securityContext") or {})}:
            fit["securityContext"] = context
        if _needs_user(spec, context) and container.get("image") != own.get("image"):
            fit["securityContext"] = {**context, "runAsUser": NOBODY}
        found.append(fit)
    return found


def _free(name: str, taken: set[Any]) -> str:
    return name if name not in taken else next(f"{name}-{n}" for n in count(2) if f"{name}-{n}" not in taken)


def _needs_user(spec: Document, context: Document) -> bool:
    whole = {**(spec.get("securityContext") or {}), **context}
    return bool(whole.get("runAsNonRoot")) and not whole.get("runAsUser")
