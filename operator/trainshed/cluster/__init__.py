"""The only room that speaks to the API server: what can be asked of it, and what it may answer.

ClusterError
├── Missing        404: there is no such object
├── Conflict       409: somebody else changed it first; look again
├── NameTaken      409: the name is in use by an object that is not ours
│   └── Hidden     it is ours, but has lost the label by which a watch would tell of it
├── Denied         403: quota, admission or rights; carries a reason such as `QuotaExceeded`
├── Invalid        400, 413, 422: the object can never be accepted as it is
│   └── StatusRejected  the status of a job, which the schema of its CRD does not accept
├── Expired        410: the version asked for is gone; list again
├── Throttled      429: too much at once; carries the seconds to wait
├── NotLeading     nothing was sent: it is not for us to write any more
└── Unavailable    5xx, a time-out, a lost connection, a garbled answer: the outcome is not known
"""

from __future__ import annotations

from typing import Protocol

from trainshed.api.dependent import Dependent, Resource
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service


class ClusterError(Exception):
    """An answer other than the one hoped for; `reason` is CamelCase, the text is the server's own."""

    reason = "ClusterError"

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or type(self).reason


class Missing(ClusterError):
    """There is no such object."""

    reason = "NotFound"


class Conflict(ClusterError):
    """The object has changed since it was read."""

    reason = "Conflict"


class NameTaken(ClusterError):
    """Somebody else's object has the name."""

    reason = "NameTaken"


class Hidden(NameTaken):
    """The job's own object has the name, and has lost our label: no watch tells of it any more; `pod`, if it is one."""

    reason = "LabelTakenOff"

    def __init__(self, message: str, pod: Pod | None = None) -> None:
        super().__init__(message)
        self.pod = pod


class Denied(ClusterError):
    """The server understood and will not: quota, admission, rights, or a namespace that is going away."""

    reason = "Forbidden"


class Invalid(ClusterError):
    """The object is not acceptable, however often it is sent."""

    reason = "Invalid"


class StatusRejected(Invalid):
    """The server does not accept the status of a job: another CRD than ours is installed, or a webhook objects."""

    reason = "StatusRejected"


class Expired(ClusterError):
    """The version to continue from is no longer known."""

    reason = "Expired"


class Throttled(ClusterError):
    """The server asks for a pause of `wait` seconds."""

    reason = "TooManyRequests"

    def __init__(self, message: str, wait: float = 1.0) -> None:
        super().__init__(message)
        self.wait = wait


class NotLeading(ClusterError):
    """It is not for us to write any more: another may lead by now. Nothing was sent."""

    reason = "NotLeading"


class Unavailable(ClusterError):
    """No answer, or none that can be understood: the request may or may not have been carried out."""

    reason = "Unavailable"


class Cluster(Protocol):
    """The verbs. Each is safe to repeat: "already there and ours" and "already gone" are success, not errors.

    Every verb may raise `Denied`, `Invalid`, `Throttled` or `Unavailable`, and all that write but `write_lease` may
    raise `NotLeading`; the other errors are named where they occur.
    """

    async def read_job(self, framework: Framework, namespace: str, name: str) -> Document | None:
        """The job as the server has it now, uncached, or None."""
        ...

    async def store_status(self, framework: Framework, namespace: str, name: str, patch: Document) -> Document:
        """Merge `patch` into the status subresource; its `metadata.uid` and `.resourceVersion` are preconditions.

        Returns the job as stored, also when the server's first word of it was lost. Raises `Conflict`, and `Missing`
        when the job is gone.
        """
        ...

    async def read_pods(self, namespace: str, job: str) -> tuple[list[Pod], str]:
        """The pods that bear the name of a job as the server has them now, uncached, and the version of that list."""
        ...

    async def seek_pod(self, namespace: str, name: str, owner: str) -> None:
        """Return if no pod of this name belongs to the job with the uid `owner` any more.

        Raises `Hidden` if one does and no watch would tell of it, `Unavailable` if the watch has yet to tell of it.
        """
        ...

    async def delete_job(self, framework: Framework, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the job with this uid, its children in the background; a `Conflict` if it is at another version."""
        ...

    async def create_pod(self, namespace: str, body: Document) -> Pod:
        """Create a pod. A pod of that name and the same controller uid is returned; a stranger's raises `NameTaken`."""
        ...

    async def create_service(self, namespace: str, body: Document) -> Service:
        """Create a Service, with the answers of `create_pod`."""
        ...

    async def create_secret(self, namespace: str, body: Document) -> None:
        """Create a Secret under a name that only its owner's can have: one that is there already is not looked at."""
        ...

    async def create_dependent(self, resource: Resource, namespace: str, body: Document) -> Dependent:
        """Create a dependent, with the answers of `create_pod`."""
        ...

    async def update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> Dependent:
        """Merge `patch` into a dependent; its `metadata.uid` and `.resourceVersion` are preconditions.

        Returns it as stored. Raises `Conflict`, and `Missing` when it is gone.
        """
        ...

    async def delete_dependent(self, resource: Resource, namespace: str, name: str, uid: str) -> Dependent | None:
        """Delete the dependent with this uid; returns what remains while it terminates, None once it is gone."""
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None, version: str) -> Pod | None:
        """Delete the pod with this uid; returns what remains while it terminates, None once it is gone.

        With a version it is deleted only as it was then; raises `Conflict` if it has changed.
        """
        ...

    async def release_pod(self, namespace: str, name: str, patch: Document) -> Pod | None:
        """Merge `patch` into a pod, with preconditions as those of `update_dependent`; None once it is gone.

        Raises `Conflict`.
        """
        ...

    async def delete_service(self, namespace: str, name: str, uid: str) -> Service | None:
        """Delete the Service with this uid; returns what remains while it terminates, None once it is gone."""
        ...

    async def create_event(self, namespace: str, body: Document) -> None:
        """Create a core/v1 Event. Raises `Conflict` if there is one of that name."""
        ...

    async def update_event(self, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into an Event. Raises `Missing` once the server has forgotten it."""
        ...

    async def read_lease(self, namespace: str, name: str) -> Document | None:
        """The Lease, or None."""
        ...

    async def write_lease(self, namespace: str, name: str, body: Document) -> Document:
        """Create the Lease, or replace it if `body` has a resourceVersion; raises `Conflict` if another was first."""
        ...
