"""The kinds of objects in a local run, and what is read of one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL

#: A stored object. It is never changed, only replaced.
Stored: TypeAlias = dict[str, Any]
#: Called after each change with the kind of the object, and the object before (None if new) and after (None if gone).
Listener: TypeAlias = Callable[[str, Stored | None, Stored | None], None]
POD, SECRET, CONFIG_MAP, CLAIM, EVENT = "Pod", "Secret", "ConfigMap", "PersistentVolumeClaim", "Event"
#: Metadata that a file may have from a cluster, as `kubectl get -o yaml` writes it: what the API server sets, and what
#: names objects and controllers that do not exist here.
OF_A_CLUSTER = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("selfLink", "managedFields", "ownerReferences", "finalizers"),
)


def timestamp(at: datetime) -> str:
    """Return a time as the API server writes it, but with microseconds, so that the order of quick events is kept."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_deleted(found: Document) -> bool:
    """Return whether the deletion of an object has begun."""
    return "deletionTimestamp" in found["metadata"]


def as_created(document: Document) -> Stored:
    """Return an object of a file without its status and what else a cluster has set."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in OF_A_CLUSTER}
    for part in ("labels", "annotations"):
        metadata[part] = {key: "" if value is None else value for key, value in (metadata.get(part) or {}).items()}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def job_name(found: Document) -> str:
    """Return the name of the job in the label of an object, empty without one."""
    return str((found["metadata"].get("labels") or {}).get(JOB_NAME_LABEL, ""))
