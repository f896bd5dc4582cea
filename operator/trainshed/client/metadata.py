"""The metadata of objects: of labels and annotations, which others may add without number, only those that are read."""

from __future__ import annotations

from datetime import datetime

import msgspec

from trainshed.api.objects import (
    JOB_NAME_LABEL,
    JOB_SERVICE_ANNOTATION,
    POD_GROUP_SIZE_ANNOTATION,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
    RESTART_ATTEMPT_ANNOTATION,
    TEMPLATE_HASH_ANNOTATION,
)

#: The API group of jobs, and what the versions of it begin with.
GROUP = "kubeflow.org"
VERSIONS = f"{GROUP}/"


class OwnerReference(msgspec.Struct, gc=False, rename="camel"):
    """An owner reference."""

    uid: str = ""
    controller: bool = False
    api_version: str = ""
    kind: str = ""
    name: str = ""

    @property
    def is_to_job(self) -> bool:
        """Whether it is a reference to a job; no other object has the uid of a job, whatever a reference says."""
        return self.api_version.startswith(VERSIONS)


class Labels(msgspec.Struct, gc=False):
    """The labels that are read, each None if it is not there."""

    job: str | None = msgspec.field(name=JOB_NAME_LABEL, default=None)
    role: str | None = msgspec.field(name=REPLICA_TYPE_LABEL, default=None)
    index: str | None = msgspec.field(name=REPLICA_INDEX_LABEL, default=None)


class Annotations(msgspec.Struct, gc=False):
    """The annotations that are read, each None if it is not there."""

    attempt: str | None = msgspec.field(name=RESTART_ATTEMPT_ANNOTATION, default=None)
    template_hash: str | None = msgspec.field(name=TEMPLATE_HASH_ANNOTATION, default=None)
    service: str | None = msgspec.field(name=JOB_SERVICE_ANNOTATION, default=None)
    group_size: str | None = msgspec.field(name=POD_GROUP_SIZE_ANNOTATION, default=None)


NO_LABELS, NO_ANNOTATIONS = Labels(), Annotations()


class ObjectMeta(msgspec.Struct, gc=False, rename="camel"):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> str:
        """The uid of the job that controls the object, empty without one.

        An admission policy may let only the operator write references to jobs: one to an object of another kind must
        not count as one to a job because of its uid.
        """
        found = self.controller_reference
        return found.uid if found.is_to_job else ""

    @property
    def controller_reference(self) -> OwnerReference:
        """The owner reference of the controller, an empty one without a controller."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return OwnerReference()


class PartialObjectMetadata(msgspec.Struct, gc=False):
    """An object of any kind, with its metadata only."""

    metadata: ObjectMeta
