"""The verbs, on a real API server: "already there" and "already gone" are success, whatever got lost on the way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import orjson

from trainshed.api.dependent import Dependent, Resource
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service

from . import Conflict, Missing, NameTaken, Throttled, Unavailable
from .lanes import Lane, Pace
from .objects import PodObject, ServiceObject, Stub, dependent, pod, service
from .wire import FIELD_MANAGER, AlreadyExists, Path, Wire

T = TypeVar("T")
#: Requests in flight: 16 to 32 is what an API server on two cores makes good use of; more only waits there.
CREATES, DELETES, STATUSES, EVENTS = 32, 32, 16, 4
#: So often a request is sent whose outcome is unknown, with so many seconds between, doubled each time.
TRIES, PAUSE = 3, 0.2
CORE, LEASES = "/api/v1", "/apis/coordination.k8s.io/v1"
WRONG_CRD = (
    "the CRD of %s drops what is stored in the status (%s), and restarts are forgotten: it is not ours;"
    " kubectl replace -f crds/kubeflow.org_%s.yaml"
)

log = logging.getLogger(__name__)


class Gateway:
    """Speaks `trainshed.cluster.Cluster` to an API server."""

    def __init__(self, wire: Wire, pace: Pace) -> None:
        self._wire = wire
        self._creates, self._deletes = Lane(CREATES, pace), Lane(DELETES, pace)
        self._statuses, self._events = Lane(STATUSES, pace), Lane(EVENTS, pace)
        self._pod = msgspec.json.Decoder(PodObject)
        self._service = msgspec.json.Decoder(ServiceObject)
        self._stub = msgspec.json.Decoder(Stub)
        self._told: set[str] = set()

    async def read_job(self, framework: Framework, namespace: str, name: str) -> Document | None:
        """The job as the server has it now, uncached, or None."""
        return await self._read(Path(framework.prefix, framework.plural, namespace, name))

    async def store_status(self, framework: Framework, namespace: str, name: str, patch: Document) -> Document:
        """Merge `patch` into the status; raises `Conflict`, and `Missing` when the job is gone."""
        path = Path(framework.prefix, framework.plural, namespace, name, "status")
        stored = _document(await self._statuses.run(lambda: self._wire.call("PATCH", path, patch, FIELD_MANAGER)))
        dropped = {key for key, value in patch["status"].items() if value is not None} - stored.get("status", {}).keys()
        if dropped and framework.plural not in self._told:
            self._told.add(framework.plural)
            log.warning(WRONG_CRD, framework.plural, ", ".join(sorted(dropped)), framework.plural)
        return stored

    async def delete_job(self, framework: Framework, namespace: str, name: str, uid: str) -> None:
        """Delete the job with this uid, its children in the background."""
        await self._delete(Path(framework.prefix, framework.plural, namespace, name), uid, None)

    async def create_pod(self, namespace: str, body: Document) -> Pod:
        """Create a pod; a stranger's of that name raises `NameTaken`."""
        return pod(self._decoded(self._pod, await self._create(Path(CORE, "pods", namespace), body)))

    async def create_service(self, namespace: str, body: Document) -> Service:
        """Create a Service; a stranger's of that name raises `NameTaken`."""
        return service(self._decoded(self._service, await self._create(Path(CORE, "services", namespace), body)))

    async def create_secret(self, namespace: str, body: Document) -> None:
        """Create a Secret; that its name is there already is success. It is not looked at: that would take a right."""
        path = Path(CORE, "secrets", namespace)
        with contextlib.suppress(AlreadyExists):
            await _persistently(lambda: self._creates.run(lambda: self._wire.call("POST", path, body, FIELD_MANAGER)))

    async def create_dependent(self, resource: Resource, namespace: str, body: Document) -> Dependent:
        """Create a dependent; a stranger's of that name raises `NameTaken`."""
        content = await self._create(Path(resource.prefix, resource.plural, namespace), body)
        made = self._dependent(resource, content)
        if made.job:
            return made
        # v1 made it, who puts no label on such: without one no watch would ever tell us of it.
        labels = {"uid": made.uid, "resourceVersion": made.version, "labels": body["metadata"]["labels"]}
        return await self.update_dependent(resource, namespace, made.name, {"metadata": labels})

    async def update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> Dependent:
        """Merge `patch` into a dependent; raises `Conflict`, and `Missing` when it is gone."""
        path = Path(resource.prefix, resource.plural, namespace, name)
        content = await self._creates.run(lambda: self._wire.call("PATCH", path, patch, FIELD_MANAGER))
        return self._dependent(resource, content)

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None) -> Pod | None:
        """Delete the pod with this uid; returns what remains while it terminates."""
        left = await self._delete(Path(CORE, "pods", namespace, name), uid, grace)
        remains = pod(self._decoded(self._pod, left)) if left else None
        return remains if remains and remains.uid == uid and remains.deleting else None

    async def delete_service(self, namespace: str, name: str, uid: str) -> Service | None:
        """Delete the Service with this uid; returns what remains while it terminates."""
        left = await self._delete(Path(CORE, "services", namespace, name), uid, None)
        remains = service(self._decoded(self._service, left)) if left else None
        return remains if remains and remains.uid == uid and remains.deleting else None

    async def delete_dependent(self, resource: Resource, namespace: str, name: str, uid: str) -> Dependent | None:
        """Delete the dependent with this uid; returns what remains while it terminates."""
        left = await self._delete(Path(resource.prefix, resource.plural, namespace, name), uid, None)
        remains = self._dependent(resource, left) if left else None
        return remains if remains and remains.uid == uid and remains.deleting else None

    async def create_event(self, namespace: str, body: Document) -> None:
        """Create a core/v1 Event."""
        path = Path(CORE, "events", namespace)
        await self._events.run(lambda: self._wire.call("POST", path, body, FIELD_MANAGER))

    async def update_event(self, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into an Event; raises `Missing` once it is forgotten."""
        path = Path(CORE, "events", namespace, name)
        await self._events.run(lambda: self._wire.call("PATCH", path, patch, FIELD_MANAGER))

    async def read_lease(self, namespace: str, name: str) -> Document | None:
        """The Lease, or None."""
        return await self._read(Path(LEASES, "leases", namespace, name))

    async def write_lease(self, namespace: str, name: str, body: Document) -> Document:
        """Create the Lease, or replace it at its version; raises `Conflict` if another was first."""
        known = "resourceVersion" in body.get("metadata", {})
        path = Path(LEASES, "leases", namespace, name if known else "")
        return _document(await self._wire.call("PUT" if known else "POST", path, body, FIELD_MANAGER))

    async def serves(self, resource: Resource) -> bool:
        """Whether the server knows this kind of object: its CRD is there."""
        known = await self._read(Path("/apis", resource.api_version))
        return any(item["name"] == resource.plural for item in (known or {}).get("resources", ()))

    async def _read(self, path: Path) -> Document | None:
        try:
            return _document(await self._wire.call("GET", path))
        except Missing:
            return None

    async def _create(self, path: Path, body: Document) -> bytes:
        async def once() -> bytes:
            return await self._wire.call("POST", path, body, FIELD_MANAGER)

        try:
            return await _persistently(lambda: self._creates.run(once))
        except AlreadyExists:
            return await self._ours(path, body)

    async def _ours(self, path: Path, body: Document) -> bytes:
        """The object that has the name already, if its controller is the one that `body` names."""
        name, owner = body["metadata"]["name"], body["metadata"]["ownerReferences"][0]["uid"]
        try:
            there = await self._wire.call("GET", Path(path.prefix, path.plural, path.namespace, name))
        except Missing:
            raise Unavailable(f"{path.plural} {name} was there and has gone while we looked") from None
        meta = self._decoded(self._stub, there).metadata
        if meta.controller == owner:
            return there
        leaving = " It is being deleted." if meta.deletion_timestamp else ""
        what = f"{path.plural[:-1]} {name} exists already and belongs to somebody else.{leaving}"
        raise NameTaken(f"{what} Rename it or the job, or delete it.")

    async def _delete(self, path: Path, uid: str, grace: int | None) -> bytes | None:
        options: dict[str, Any] = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace

        async def once() -> bytes:
            return await self._wire.call("DELETE", path, options)

        try:
            return await _persistently(lambda: self._deletes.run(once))
        except (Missing, Conflict):
            return None  # it is gone, or its name is another object's by now

    def _dependent(self, resource: Resource, content: bytes) -> Dependent:
        meta = self._decoded(self._stub, content).metadata
        return dependent(resource, meta, _document(content))

    @staticmethod
    def _decoded(decoder: msgspec.json.Decoder[T], content: bytes) -> T:
        try:
            return decoder.decode(content)
        except msgspec.DecodeError as error:
            raise Unavailable(f"an answer that makes no sense: {error}") from error


async def _persistently(call: Callable[[], Awaitable[T]]) -> T:
    for tried in range(1, TRIES):
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(PAUSE * 2**tried * random.uniform(0.5, 1.0))  # noqa: S311 - only to spread tries
        except Throttled as error:
            await asyncio.sleep(error.wait * random.uniform(1.0, 1.5))  # noqa: S311 - only to spread tries
    return await call()


def _document(content: bytes) -> Document:
    try:
        found: Document = orjson.loads(content)
    except ValueError as error:
        raise Unavailable(f"an answer that makes no sense: {error}") from error
    return found
