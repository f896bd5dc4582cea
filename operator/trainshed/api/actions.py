"""What can be done about a job: a plan is a status to store, things to say, and actions each safe to repeat."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .dependent import Resource
from .job import Document
from .status import Status


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make this pod; that it is there already, and ours, is success."""

    name: str
    body: Document


@dataclass(frozen=True, slots=True)
class CreateService:
    """Make this Service; that it is there already, and ours, is success."""

    name: str
    body: Document


@dataclass(frozen=True, slots=True)
class CreateKeys:
    """Make this Secret with new ssh keys in it; one that is there already is ours, for no other job's has its name."""

    name: str
    body: Document


@dataclass(frozen=True, slots=True)
class CreateDependent:
    """Make this; that it is there already is success if it is ours, or with `shared` whoever's it is."""

    resource: Resource
    name: str
    body: Document
    shared: bool = False


@dataclass(frozen=True, slots=True)
class UpdateDependent:
    """Merge `patch` into this; its `metadata.uid` and `.resourceVersion` are preconditions."""

    resource: Resource
    name: str
    patch: Document


@dataclass(frozen=True, slots=True)
class DeleteDependent:
    """Delete the dependent with this uid, and no other of that name."""

    resource: Resource
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete the pod with this uid, and no other of that name; `grace` is seconds, None leaves it to the pod.

    With a `version` it goes only if it is still as it was then: to be given where what is deleted depends on how it is.
    """

    name: str
    uid: str
    grace: int | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Take our finalizer off the pod with this uid, at this version, and leave it those of others."""

    name: str
    uid: str
    version: str
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Delete the Service with this uid, and no other of that name."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the job with this uid, its children after it, if it is still as it was at this version."""

    uid: str
    version: str


Action = (
    CreatePod
    | CreateService
    | CreateKeys
    | CreateDependent
    | UpdateDependent
    | DeletePod
    | ReleasePod
    | DeleteService
    | DeleteDependent
    | DeleteJob
)


class Tone(StrEnum):
    """The type of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell the user: it becomes a Kubernetes Event on the job once the status it belongs to is stored.

    A note with a `key` tells of something that lasts: it may be noted at every look and is told once.
    """

    tone: Tone
    reason: str
    message: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One decision: remember `status`, say `notes`, do `actions`, in this order; look again by `look_again`."""

    status: Status
    notes: tuple[Note, ...] = ()
    actions: tuple[Action, ...] = ()
    look_again: datetime | None = None
