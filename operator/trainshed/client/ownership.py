"""Whose an existing object is, and what users read in Events if it is not the job's, or not what was created."""

from __future__ import annotations

from typing import TypeVar

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL, Dependent, Pod, Service
from trainshed.client import Altered, NameConflict, PreviousJobTerminating

from .decode import MAX_NAME_LENGTH
from .metadata import NO_LABELS, ObjectMeta

Child = TypeVar("Child", Pod, Service, Dependent)


def owned_by_other(kind: str, there: ObjectMeta, wanted: Document) -> NameConflict | None:
    """Return the error if an existing object is not the wanted one, None if both have the same controller."""
    name, owners = wanted["metadata"]["name"], wanted["metadata"]["ownerReferences"]
    job = next(reference for reference in owners if reference.get("controller"))
    owner = there.controller_reference
    if there.controller == job["uid"]:
        return None
    if owner.is_to_job and (owner.kind, owner.name) == (job["kind"], job["name"]):
        return PreviousJobTerminating(f"waiting for {kind} {name} of the previous job to terminate")
    exists = f"{kind} {name} already exists and is not controlled by this job"
    known = (
        f"its controller is {_printable(owner.kind)} {_printable(owner.name)}" if owner.uid else "it has no controller"
    )
    if there.deletion_timestamp:
        return NameConflict(f"{exists}; {known}, and it is being deleted")
    return NameConflict(f"{exists}; {known}: delete the {kind}, or rename this job")


def _printable(name: str) -> str:
    return one_line(name[:MAX_NAME_LENGTH])


def missing_label(kind: str, there: ObjectMeta) -> str:
    """Return why no watch selects a pod or Service of the job, empty if its job label is there."""
    if kind not in ("pod", "service") or (there.labels or NO_LABELS).job is not None:
        return ""
    return label_removed(kind, there.name)


def label_removed(kind: str, name: str) -> str:
    """Return what the user reads about a pod or Service without its job label."""
    what = f"{kind} {name} is controlled by this job, but its label {JOB_NAME_LABEL} was removed."
    return f"{what} Restore the label, or delete the {kind}."


def require_unaltered(found: Child, kind: str, name: str, owner: str) -> Child:
    """Return the object that was created; raises `Altered` if it has another name or controller."""
    if found.name == name and found.owner == owner:
        return found
    raise altered(kind, name, "its controller" if found.name == name else "its name")


def altered(kind: str, name: str, what: str, pod: Pod | None = None) -> Altered:
    """Return the error that an admission webhook has changed a part of the object on its creation."""
    return Altered(f"{kind} {name} was created, but an admission webhook has changed {what}", pod=pod)


def renamed(kind: str, name: str, other: str) -> Altered:
    """Return the error that an object was not created, because a webhook has given it the name of another one."""
    why = f"an admission webhook has changed its name to that of another, {other}"
    return Altered(f"{kind} {name} was not created: {why}")
