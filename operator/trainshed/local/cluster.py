"""The API server of a local run: objects in memory, with the preconditions that the controller relies on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from trainshed.api.actions import CreatePod
from trainshed.api.coerce import LARGEST
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL, Dependent, Pod, Resource, Service
from trainshed.client import Conflict, Invalid, NotFound
from trainshed.client.decode import (
    ObjectMeta,
    PartialObjectMetadata,
    PodObject,
    ServiceObject,
    dependent,
    owned_by_other,
    pod,
    service,
)

#: A stored object. It is never changed, only replaced.
Stored: TypeAlias = dict[str, Any]
#: Called after each change with the kind of the object, and the object before (None if new) and after (None if gone).
Listener: TypeAlias = Callable[[str, Stored | None, Stored | None], None]
POD, SERVICE, SECRET, CONFIG_MAP, CLAIM, EVENT = (
    *("Pod", "Service", "Secret", "ConfigMap", "PersistentVolumeClaim", "Event"),
)
#: What the API server sets in the metadata of an object, whatever a file says, such as one of `kubectl get -o yaml`.
SET_BY_SERVER = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("selfLink", "managedFields"),
)
#: The grace period of a pod that does not set one, in seconds.
DEFAULT_GRACE = 30


def timestamp(at: datetime) -> str:
    """Return a time as the API server writes it, but with microseconds, so that the order of quick events is kept."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LocalCluster:
    """Implements `trainshed.client.Client`; watches are `listeners`, which are called soon after each change.

    `admit` may change a pod that is created, as a mutating webhook does.
    """

    def __init__(self, now: Callable[[], datetime], admit: Callable[[Document], Document] = lambda pod: pod) -> None:
        self._now = now
        self._admit = admit
        self._objects: dict[tuple[str, str, str], Stored] = {}
        self._version = 0
        self.listeners: list[Listener] = []

    # The user --------------------------------------------------------------------------------------------------------

    def apply(self, document: Document) -> Stored:
        """Create an object, or replace everything of an existing one except for its status; return it."""
        document = as_created(document)
        metadata = document["metadata"]
        known = self.find(document["kind"], metadata["namespace"], metadata["name"])
        if known is None:
            return self._create(document)
        generation = known["metadata"]["generation"] + (known.get("spec") != document.get("spec"))
        kept = {key: known["metadata"][key] for key in ("uid", "creationTimestamp")}
        status = {"status": known["status"]} if "status" in known else {}
        return self._put({**document, **status, "metadata": {**metadata, **kept, "generation": generation}})

    def find(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Return an object, None if there is none of this name."""
        return self._objects.get((kind, namespace, name))

    def of(self, kind: str) -> Iterator[Stored]:
        """Iterate over the objects of a kind, the oldest first."""
        return (found for (known, *_), found in list(self._objects.items()) if known == kind)

    # The kubelet -----------------------------------------------------------------------------------------------------

    def set_pod_status(self, found: Document, status: Document, node: str = "") -> bool:
        """Replace the status of this very pod; return False if it is gone."""
        metadata = found["metadata"]
        current = self.find(POD, metadata["namespace"], metadata["name"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            return False
        spec = {**current["spec"], "nodeName": node} if node else current["spec"]
        self._put({**current, "spec": spec, "status": status})
        return True

    def confirm_deletion(self, found: Document) -> None:
        """Remove a pod whose containers have ended; one with finalizers stays until they are removed."""
        metadata = found["metadata"]
        current = self.find(POD, metadata["namespace"], metadata["name"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            return
        if current["metadata"].get("finalizers"):
            self._put({**current, "metadata": {**current["metadata"], "deletionGracePeriodSeconds": 0}})
        else:
            self._drop(current)

    # The controller --------------------------------------------------------------------------------------------------

    async def read_job(self, framework: Framework, namespace: str, name: str) -> Document | None:
        """Read the job; None if it does not exist."""
        return self.find(framework.kind, namespace, name)

    async def store_status(self, framework: Framework, namespace: str, name: str, patch: Document) -> Document:
        """Merge `patch` into the status; raises `Conflict`, and `NotFound` if the job does not exist."""
        job = self._checked(framework.kind, namespace, name, patch)
        return self._put({**job, "status": merged(job.get("status", {}), patch["status"])})

    async def read_pods(self, namespace: str, job: str) -> tuple[list[Pod], str]:
        """List the pods with the label of a job."""
        found = (pod_of(item) for item in self.of(POD) if item["metadata"]["namespace"] == namespace)
        return [item for item in found if item.job == job], str(self._version)

    async def seek_pod(self, namespace: str, name: str, owner: str) -> None:
        """Do nothing: each pod of the job is in the cache."""

    async def delete_job(self, framework: Framework, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the job with this uid, and what it owns; raises `Conflict` if the version differs, and `NotFound`."""
        job = self.find(framework.kind, namespace, name)
        if job is None or job["metadata"]["uid"] != uid:
            raise NotFound(f"{framework.kind} {namespace}/{name}")
        if job["metadata"]["resourceVersion"] != version:
            raise Conflict(f"{framework.kind} {namespace}/{name} has changed")
        self._drop(job)
        for found in [found for found in self._objects.values() if controller(found) == uid]:
            if found["kind"] == POD:
                self._begin_deletion(found, None)
            else:
                self._drop(found)

    async def create_pod(self, namespace: str, pod: CreatePod) -> Pod:
        """Create a pod, or return the job's own; raises `NameConflict` if it belongs to another."""
        return pod_of(self._create_owned(namespace, {**self._admit(pod.body), "status": {"phase": "Pending"}}))

    async def create_service(self, namespace: str, body: Document) -> Service:
        """Create a Service, with the results and errors of `create_pod`."""
        return service(msgspec.convert(self._create_owned(namespace, body), ServiceObject))

    async def create_secret(self, namespace: str, body: Document) -> None:
        """Create a Secret; an existing one is left as it is."""
        if self.find(SECRET, namespace, body["metadata"]["name"]) is None:
            self._create_owned(namespace, body)

    async def create_dependent(self, resource: Resource, namespace: str, body: Document) -> Dependent:
        """Create a dependent, with the results and errors of `create_pod`."""
        return dependent_of(resource, self._create_owned(namespace, {**body, "kind": resource.kind}))

    async def update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> Dependent:
        """Merge `patch` into a dependent; raises `Conflict`, and `NotFound` if it does not exist."""
        found = self._checked(resource.kind, namespace, name, patch)
        return dependent_of(resource, self._put(merged(found, patch)))

    async def delete_dependent(self, resource: Resource, namespace: str, name: str, uid: str) -> Dependent | None:
        """Delete the dependent with this uid."""
        self._delete(resource.kind, namespace, name, uid)
        return None

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None, version: str) -> Pod | None:
        """Begin to delete the pod with this uid; return it until the kubelet has ended it. Raises `Conflict`."""
        found = self.find(POD, namespace, name)
        if found is None or found["metadata"]["uid"] != uid:
            return None
        if version and found["metadata"]["resourceVersion"] != version:
            raise Conflict(f"pod {namespace}/{name} has changed")
        self._begin_deletion(found, grace)
        left = self.find(POD, namespace, name)
        return pod_of(left) if left else None

    async def release_pod(self, namespace: str, name: str, patch: Document) -> Pod | None:
        """Remove the finalizer of a pod; None once it is gone. Raises `Conflict`."""
        try:
            found = self._put(merged(self._checked(POD, namespace, name, patch), patch))
        except NotFound:
            return None
        if found["metadata"].get("finalizers") or found["metadata"].get("deletionGracePeriodSeconds") != 0:
            return pod_of(found)
        self._drop(found)
        return None

    async def delete_service(self, namespace: str, name: str, uid: str) -> Service | None:
        """Delete the Service with this uid."""
        self._delete(SERVICE, namespace, name, uid)
        return None

    def is_busy(self) -> bool:
        """Return False: no request waits."""
        return False

    async def read_events(self, namespace: str, kind: str, uid: str) -> list[Document]:
        """Return no Events: there is no scheduler."""
        del namespace, kind, uid
        return []

    async def create_event(self, namespace: str, body: Document) -> None:
        """Create a core/v1 Event; raises `Conflict` if the name exists."""
        if self.find(EVENT, namespace, body["metadata"]["name"]):
            raise Conflict(f"Event {body['metadata']['name']} exists")
        self._create(body)

    async def update_event(self, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into an Event; raises `NotFound` if there is none."""
        found = self.find(EVENT, namespace, name)
        if found is None:
            raise NotFound(f"Event {name}")
        self._put(merged(found, patch))

    async def read_lease(self, namespace: str, name: str) -> Document | None:
        """Return None: there is one controller, which needs no Lease."""
        del namespace, name
        return None

    async def write_lease(self, namespace: str, name: str, body: Document) -> Document:
        """Raise `Invalid`: there are no Leases."""
        del body
        raise Invalid(f"Lease {namespace}/{name}: a local run has no Leases")

    # The store -------------------------------------------------------------------------------------------------------

    def _create(self, document: Document) -> Stored:
        stamp = {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp(self._now()), "generation": 1}
        return self._put({**document, "metadata": {**document["metadata"], **stamp}})

    def _create_owned(self, namespace: str, body: Document) -> Stored:
        found = self.find(body["kind"], namespace, body["metadata"]["name"])
        if found is None:
            return self._create({**body, "metadata": {**body["metadata"], "namespace": namespace}})
        if error := owned_by_other(body["kind"].lower(), metadata_of(found), body):
            raise error
        return found

    def _checked(self, kind: str, namespace: str, name: str, patch: Document) -> Stored:
        found, wanted = self.find(kind, namespace, name), patch["metadata"]
        if found is None or found["metadata"]["uid"] != wanted["uid"]:
            raise NotFound(f"{kind} {namespace}/{name}")
        if found["metadata"]["resourceVersion"] != wanted["resourceVersion"]:
            raise Conflict(f"{kind} {namespace}/{name} has changed")
        return found

    def _begin_deletion(self, found: Stored, asked: int | None) -> None:
        """Mark a pod; a later deletion may shorten its grace period, and one that runs nothing needs none."""
        metadata, spec = found["metadata"], found["spec"]
        grace = asked if asked is not None else grace_period(spec)
        if found.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            grace = 0
        if "deletionTimestamp" in metadata and grace >= metadata["deletionGracePeriodSeconds"]:
            return
        mark = {
            "deletionTimestamp": timestamp(self._now() + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        self._put({**found, "metadata": {**metadata, **mark}})

    def _delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        found = self.find(kind, namespace, name)
        if found is not None and found["metadata"]["uid"] == uid:
            self._drop(found)

    def _put(self, document: Stored) -> Stored:
        metadata = {**document["metadata"], "resourceVersion": self._tick()}
        found = {**document, "metadata": metadata}
        key = (found["kind"], metadata["namespace"], metadata["name"])
        before, self._objects[key] = self._objects.get(key), found
        self._notify(found["kind"], before, found)
        return found

    def _drop(self, document: Stored) -> None:
        metadata = {**document["metadata"], "resourceVersion": self._tick()}
        del self._objects[document["kind"], metadata["namespace"], metadata["name"]]
        self._notify(document["kind"], {**document, "metadata": metadata}, None)

    def _notify(self, kind: str, before: Stored | None, after: Stored | None) -> None:
        for listener in self.listeners:
            asyncio.get_running_loop().call_soon(listener, kind, before, after)

    def _tick(self) -> str:
        self._version += 1
        return str(self._version)


def as_created(document: Document) -> Stored:
    """Return an object of a file without its status and what else the API server sets."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in SET_BY_SERVER}
    for part in ("labels", "annotations"):
        metadata[part] = {key: "" if value is None else value for key, value in (metadata.get(part) or {}).items()}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def grace_period(spec: Document) -> int:
    """Return the seconds of grace of a pod: at most some decades; a negative one is a second, as in Kubernetes."""
    found: int = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    return 1 if found < 0 else min(found, LARGEST)


def merged(document: Document, patch: Document) -> Stored:
    """Return the document with a JSON merge patch (RFC 7386) applied."""
    found = {key: value for key, value in document.items() if patch.get(key, "") is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            known = found.get(key)
            found[key] = merged(known if isinstance(known, dict) else {}, value)
        elif value is not None:
            found[key] = value
    return found


def controller(found: Document) -> str:
    """Return the uid of the controller that owns an object, empty without one."""
    return metadata_of(found).controller


def job_name(found: Document) -> str:
    """Return the name of the job in the label of an object, empty without one."""
    return str((found["metadata"].get("labels") or {}).get(JOB_NAME_LABEL, ""))


def metadata_of(found: Document) -> ObjectMeta:
    """Return the metadata of a stored object."""
    return msgspec.convert(found, PartialObjectMetadata).metadata


def pod_of(found: Document) -> Pod:
    """Return a stored pod as the planner sees it."""
    return pod(msgspec.convert(found, PodObject))


def dependent_of(resource: Resource, found: Document) -> Dependent:
    """Return a stored dependent as the planner sees it."""
    return dependent(resource, metadata_of(found), found)
