"""The client of the API server: the operations that the operator needs, and their errors.

ApiError
├── NotFound         404: the object does not exist
├── Conflict         409: the object has changed since it was read; read it again
├── NameConflict     409: an object that the job does not control has the name
│   ├── LabelRemoved the job controls that object, but the label is missing by which watches select it
│   └── PreviousJobTerminating  a deleted job of the same kind and name controls it; it will be deleted as well
├── Forbidden        403: quota, admission or RBAC; carries a reason such as `QuotaExceeded`
│   └── AdmissionDenied  any code: a webhook or a ValidatingAdmissionPolicy, which choose it
├── Invalid          400, 413, 422: the object is not accepted, however often it is sent
│   ├── Altered      it was created with another name or controller
│   │   └── Reverted it was updated, but not to what was written, or each write to it is undone or has a conflict
│   └── StatusRejected  the status of a job does not match the schema of its CRD
│       └── StatusReverted  it is stored, but not as it was written, or it is overwritten each time
├── Gone             410: the resourceVersion is too old; list again
├── TooManyRequests  429: carries the seconds to wait
├── NotLeader        not sent: this replica may no longer write
└── Unavailable      5xx, a time-out, a lost connection or an invalid response: the outcome is unknown
    └── TooLarge     a response that is longer than it may be
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trainshed.api.actions import CreatePod
from trainshed.api.foreign_text import one_line
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import Dependent, Pod, Resource, Service


class ApiError(Exception):
    """A request failed; `reason` is in CamelCase, the message is the API server's as one printable line."""

    reason = "ApiError"

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(one_line(message))
        self.reason = reason or type(self).reason


class NotFound(ApiError):
    """The object does not exist."""

    reason = "NotFound"


class Conflict(ApiError):
    """The object has changed since it was read."""

    reason = "Conflict"


class NameConflict(ApiError):
    """An object that the job does not control has the name; `pod` is the object, if it is a pod."""

    reason = "NameConflict"

    def __init__(self, message: str, pod: Pod | None = None) -> None:
        super().__init__(message)
        self.pod = pod


class PreviousJobTerminating(NameConflict):
    """The object of that name belongs to a deleted job of the same kind and name, and will be deleted like it."""

    reason = "PreviousJobTerminating"


class LabelRemoved(NameConflict):
    """The job controls the object of that name, but its job label is missing, so no watch selects it."""

    reason = "LabelRemoved"


class Forbidden(ApiError):
    """The server refuses the request: quota, admission, RBAC, or a namespace that is being deleted."""

    reason = "Forbidden"


class AdmissionDenied(Forbidden):
    """An admission webhook or a ValidatingAdmissionPolicy denies the request; nothing was done, whatever the code.

    The code may be that of an answer of the server, such as 404, 409 or 401, and says nothing.
    """

    reason = "DeniedByWebhook"


class Invalid(ApiError):
    """The object is invalid; sending it again is of no use."""

    reason = "Invalid"


class Altered(Invalid):
    """The object was created with another name, controller or attempt: an admission webhook has changed it.

    It is not what the operator needs, and so would be the next one. `pod` is a pod with another attempt.
    """

    reason = "AlteredOnCreation"

    def __init__(self, message: str, reason: str = "", pod: Pod | None = None) -> None:
        super().__init__(message, reason)
        self.pod = pod


class Reverted(Altered):
    """The object was updated, but is not what was written: an admission webhook has changed that.

    With the reason `UNDONE` nothing was sent, because another client has undone the last ones of the same writes; with
    `CONFLICTING` they all had conflicts.
    """

    reason = "AlteredOnUpdate"


class StatusRejected(Invalid):
    """The status of a job is rejected: the installed CRD is not Trainshed's, or a webhook denies it."""

    reason = "StatusRejected"


class StatusReverted(StatusRejected):
    """The status of a job was stored with other values, or another client overwrites it again and again."""

    reason = "StatusReverted"


#: The reason of `Reverted` if another client undoes each write.
UNDONE = "UndoneByOthers"
#: The reason of `Reverted` if each write has a conflict.
CONFLICTING = "ConflictEachTime"


class Gone(ApiError):
    """The resourceVersion to continue from has been compacted."""

    reason = "Expired"


class TooManyRequests(ApiError):
    """The server, or an admission webhook, asks the client to wait `wait` seconds."""

    reason = "TooManyRequests"

    def __init__(self, message: str, wait: float = 1.0, *, from_webhook: bool = False) -> None:
        super().__init__(message)
        self.wait = wait
        self.from_webhook = from_webhook


class NotLeader(ApiError):
    """This replica may no longer write, because another may be the leader by now. Nothing was sent."""

    reason = "NotLeader"


class Unavailable(ApiError):
    """There is no valid response: the request may or may not have been carried out.

    With the reason `UNCALLED` it was not.
    """

    reason = "Unavailable"


class TooLarge(Unavailable):
    """The response is longer than it may be; nothing of it was kept."""

    reason = "ResponseTooLarge"


#: The reason of `Unavailable` if the API server rejects the credentials.
UNAUTHORIZED = "Unauthorized"
#: The reason of `Unavailable` if the API server cannot call an admission webhook whose `failurePolicy` is `Fail`.
UNCALLED = "WebhookUnavailable"


class Client(Protocol):
    """The operations on the API server, all idempotent.

    Creating an object that the same job controls already, or deleting one that is gone, succeeds. Every operation may
    raise `Forbidden`, `Invalid`, `TooManyRequests` or `Unavailable`, and every write except `write_lease` may raise
    `NotLeader`; other errors are named where they occur.
    """

    async def read_job(self, framework: Framework, namespace: str, name: str) -> Document | None:
        """Read the job from the server, bypassing caches; None if it does not exist."""
        ...

    async def store_status(self, framework: Framework, namespace: str, name: str, patch: Document) -> Document:
        """Merge `patch` into the status subresource; its `metadata.uid` and `.resourceVersion` are preconditions.

        Return the job as stored, also if the first response was lost. Raises `Conflict`, and `NotFound` if the job does
        not exist.
        """
        ...

    async def read_pods(self, namespace: str, job: str) -> tuple[list[Pod], str]:
        """List the pods with the label of a job, bypassing caches; return them and the resourceVersion of the list."""
        ...

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """Read a pod from the server, bypassing caches; None if it does not exist."""
        ...

    async def seek_pod(self, namespace: str, name: str, owner: str) -> None:
        """Check that the job with the uid `owner` controls no pod of this name.

        Raises `LabelRemoved` if it controls one that no watch selects, and `Unavailable` if it controls one that the
        watch has not delivered yet.
        """
        ...

    async def read_events(self, namespace: str, kind: str, take: Callable[[Document], None]) -> None:
        """List the Events with the reason `Unschedulable` about objects of this kind; call `take` with each."""
        ...

    async def read_node(self, name: str) -> tuple[Document, list[Document]]:
        """Read a node and the Events about it; it is empty if it does not exist."""
        ...

    async def delete_job(self, framework: Framework, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the job with this uid, with background propagation.

        Raises `Conflict` if the version differs, and `NotFound` if there is no such job.
        """
        ...

    async def create_pod(self, namespace: str, pod: CreatePod) -> Pod:
        """Create a pod, or return the pod of that name and the same controller; raises `NameConflict` for another's.

        Raises `Conflict` if the name was taken, and is free by now.
        """
        ...

    async def create_service(self, namespace: str, body: Document) -> Service:
        """Create a Service, with the results and errors of `create_pod`."""
        ...

    async def create_secret(self, namespace: str, body: Document) -> None:
        """Create a Secret whose name contains the uid of its owner; an existing one is not read."""
        ...

    async def create_dependent(self, resource: Resource, namespace: str, body: Document) -> Dependent:
        """Create a dependent, with the results and errors of `create_pod`; one that v1 created has no job label."""
        ...

    async def update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> Dependent:
        """Merge `patch` into a dependent; its `metadata.uid` and `.resourceVersion` are preconditions.

        Return it as stored. Raises `Conflict`, and `NotFound` if it does not exist.
        """
        ...

    async def delete_dependent(self, resource: Resource, namespace: str, name: str, uid: str) -> Dependent | None:
        """Delete the dependent with this uid; return it while it is terminating, None once it is gone."""
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None, version: str) -> Pod | None:
        """Delete the pod with this uid; return it while it is terminating, None once it is gone.

        The version, if there is one, is a precondition: `Conflict` if the pod has changed. `grace` is in seconds.
        """
        ...

    async def release_pod(self, namespace: str, name: str, patch: Document) -> Pod | None:
        """Merge `patch` into a pod, with the preconditions of `update_dependent`; None once the pod is gone.

        Raises `Conflict`.
        """
        ...

    async def delete_service(self, namespace: str, name: str, uid: str) -> Service | None:
        """Delete the Service with this uid; return it while it is terminating, None once it is gone."""
        ...

    def is_busy(self) -> bool:
        """Return whether objects wait to be created."""
        ...

    async def create_event(self, namespace: str, body: Document) -> None:
        """Create a core/v1 Event; raises `Conflict` if the name exists."""
        ...

    async def update_event(self, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into an Event; raises `NotFound` if the server has removed it."""
        ...

    async def read_lease(self, namespace: str, name: str) -> Document | None:
        """Return the Lease, or None if it does not exist."""
        ...

    async def write_lease(self, namespace: str, name: str, body: Document) -> Document:
        """Create the Lease, or replace it if `body` has a resourceVersion; raises `Conflict` if it has changed."""
        ...
