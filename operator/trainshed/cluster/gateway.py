"""The verbs, on a real API server: "already there" and "already gone" are success, whatever got lost on the way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from trainshed.api.dependent import Dependent, Resource
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service

from . import ClusterError, Conflict, Hidden, Missing, NameTaken, Unavailable
from .holds import let_go
from .lanes import PAUSE, Lane, Lanes, Pace, persistently
from .lists import DOCUMENTS, METAS, PODS, SERVICES, dependents, pages, understood
from .merges import carried_out
from .objects import JOB_NAME, foreign, unlabelled
from .wire import FIELD_MANAGER, AlreadyExists, Path, Wire

Child = TypeVar("Child", Pod, Service, Dependent)
CORE, LEASES = "/api/v1", "/apis/coordination.k8s.io/v1"
WRONG_CRD = (
    "the CRD of %s drops what is stored in the status (%s), and restarts are forgotten: it is not ours;"
    " kubectl replace -f crds/kubeflow.org_%s.yaml"
)

log = logging.getLogger(__name__)


class Gateway:
    """Speaks `trainshed.cluster.Cluster` to an API server."""

    def __init__(self, wire: Wire, pace: Pace, may_write: Callable[[], bool] = lambda: True) -> None:
        self._wire = wire
        self._may_write = may_write
        self.lanes = Lanes(pace)
        self._told: set[str] = set()

    async def read_job(self, framework: Framework, namespace: str, name: str) -> Document | None:
        """The job as the server has it now, uncached, or None."""
        return await self._read(Path(framework.prefix, framework.plural, namespace, name))

    async def store_status(self, framework: Framework, namespace: str, name: str, patch: Document) -> Document:
        """Merge `patch` into the status; raises `Conflict`, and `Missing` when the job is gone."""
        path = Path(framework.prefix, framework.plural, namespace, name, "status")
        try:
            stored = DOCUMENTS.answer(await self._write(self.lanes.statuses, "PATCH", path, patch))
        except Unavailable:
            await asyncio.sleep(PAUSE)
            found = await self.read_job(framework, namespace, name)
            if found is None or not carried_out(patch, found):
                raise
            stored = found
        dropped = {key for key, value in patch["status"].items() if value is not None} - stored.get("status", {}).keys()
        if dropped and framework.plural not in self._told:
            self._told.add(framework.plural)
            log.warning(WRONG_CRD, framework.plural, ", ".join(sorted(dropped)), framework.plural)
        return stored

    async def read_pods(self, namespace: str, job: str) -> tuple[list[Pod], str]:
        """The pods that bear the name of a job as the server has them now, and the version of that list."""
        path, selector = Path(CORE, "pods", namespace), {"labelSelector": f"{JOB_NAME}={job}"}
        found: list[Pod] = []
        version = ""
        async for page in pages(self._wire, path, selector):
            found.extend(understood(PODS, page, path.plural))
            version = page.metadata.version
        return found, version

    async def seek_pod(self, namespace: str, name: str, owner: str) -> None:
        """Return if there is no such pod of this owner; raises `Hidden` if no watch tells of the one that is there."""
        try:
            there = await self._wire.call("GET", Path(CORE, "pods", namespace, name))
        except Missing:
            return
        meta = METAS.answer(there)
        if meta.controller == owner:
            found = PODS.answer(there)
            await self._hold_no_more(found)
            if why := unlabelled("pod", meta):
                raise Hidden(why, found)
            raise Unavailable(f"pod {name} is there, and the watch has yet to tell of it")

    async def delete_job(self, framework: Framework, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the job with this uid, its children in the background; a `Conflict` if it is at another version."""
        await self._delete(Path(framework.prefix, framework.plural, namespace, name), uid, None, version)

    async def create_pod(self, namespace: str, body: Document) -> Pod:
        """Create a pod; a stranger's of that name raises `NameTaken`."""
        return PODS.answer(await self._create(Path(CORE, "pods", namespace), body))

    async def create_service(self, namespace: str, body: Document) -> Service:
        """Create a Service; a stranger's of that name raises `NameTaken`."""
        return SERVICES.answer(await self._create(Path(CORE, "services", namespace), body))

    async def create_secret(self, namespace: str, body: Document) -> None:
        """Create a Secret; that its name is there already is success. It is not looked at: that would take a right."""
        path = Path(CORE, "secrets", namespace)
        with contextlib.suppress(AlreadyExists):
            await persistently(lambda: self._write(self.lanes.creates, "POST", path, body))

    async def create_dependent(self, resource: Resource, namespace: str, body: Document) -> Dependent:
        """Create a dependent; a stranger's of that name raises `NameTaken`."""
        content = await self._create(Path(resource.prefix, resource.plural, namespace), body)
        made = dependents(resource).answer(content)
        if made.job:
            return made
        # v1 made it, who puts no label on such: without one no watch would ever tell us of it.
        labels = {"uid": made.uid, "resourceVersion": made.version, "labels": body["metadata"]["labels"]}
        return await self.update_dependent(resource, namespace, made.name, {"metadata": labels})

    async def update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> Dependent:
        """Merge `patch` into a dependent; raises `Conflict`, and `Missing` when it is gone."""
        path = Path(resource.prefix, resource.plural, namespace, name)
        return dependents(resource).answer(await self._write(self.lanes.creates, "PATCH", path, patch))

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None, version: str) -> Pod | None:
        """Delete the pod with this uid, and version; returns what remains while it terminates. Raises `Conflict`."""
        left = await self._delete(Path(CORE, "pods", namespace, name), uid, grace, version)
        return _remaining(PODS.answer(left), uid) if left else None

    async def release_pod(self, namespace: str, name: str, patch: Document) -> Pod | None:
        """Merge `patch` into a pod; raises `Conflict`. None when it is gone, or goes with this write."""
        try:
            left = await self._write(self.lanes.deletes, "PATCH", Path(CORE, "pods", namespace, name), patch)
        except Missing:
            return None
        found = PODS.answer(left)
        return None if found.deleting and not (found.grace or found.finalizers) else found

    async def delete_service(self, namespace: str, name: str, uid: str) -> Service | None:
        """Delete the Service with this uid; returns what remains while it terminates."""
        left = await self._delete(Path(CORE, "services", namespace, name), uid, None)
        return _remaining(SERVICES.answer(left), uid) if left else None

    async def delete_dependent(self, resource: Resource, namespace: str, name: str, uid: str) -> Dependent | None:
        """Delete the dependent with this uid; returns what remains while it terminates."""
        left = await self._delete(Path(resource.prefix, resource.plural, namespace, name), uid, None)
        return _remaining(dependents(resource).answer(left), uid) if left else None

    async def create_event(self, namespace: str, body: Document) -> None:
        """Create a core/v1 Event: its name makes it the same one when it is sent again."""
        await persistently(lambda: self._write(self.lanes.events, "POST", Path(CORE, "events", namespace), body))

    async def update_event(self, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into an Event; raises `Missing` once it is forgotten."""
        path = Path(CORE, "events", namespace, name)
        await persistently(lambda: self._write(self.lanes.events, "PATCH", path, patch))

    async def read_lease(self, namespace: str, name: str) -> Document | None:
        """The Lease, or None."""
        return await self._read(Path(LEASES, "leases", namespace, name))

    async def write_lease(self, namespace: str, name: str, body: Document) -> Document:
        """Create the Lease, or replace it at its version; raises `Conflict` if another was first."""
        known = "resourceVersion" in body.get("metadata", {})
        path = Path(LEASES, "leases", namespace, name if known else "")
        return DOCUMENTS.answer(await self._wire.call("PUT" if known else "POST", path, body, FIELD_MANAGER))

    async def serves(self, resource: Resource) -> bool:
        """Whether the server knows this kind of object: its CRD is there."""
        known = await self._read(Path("/apis", resource.api_version))
        return any(item["name"] == resource.plural for item in (known or {}).get("resources", ()))

    async def _read(self, path: Path) -> Document | None:
        try:
            return DOCUMENTS.answer(await self._wire.call("GET", path))
        except Missing:
            return None

    async def _create(self, path: Path, body: Document) -> bytes:
        try:
            return await persistently(lambda: self._write(self.lanes.creates, "POST", path, body))
        except AlreadyExists:
            return await self._ours(path, body)

    async def _ours(self, path: Path, body: Document) -> bytes:
        """The object that has the name already, if it is the one that was to be made."""
        name = body["metadata"]["name"]
        try:
            there = await self._wire.call("GET", Path(path.prefix, path.plural, path.namespace, name))
        except Missing:
            raise Unavailable(f"{path.plural} {name} was there and has gone while we looked") from None
        kind, meta = path.plural[:-1], METAS.answer(there)
        taken, hidden = foreign(kind, meta, body), unlabelled(kind, meta)
        found = PODS.answer(there) if (taken or hidden) and kind == "pod" else None
        if found:
            await self._hold_no_more(found)
        if taken:
            raise NameTaken(taken)
        if hidden:
            raise Hidden(hidden, found)
        return there

    async def _hold_no_more(self, there: Pod) -> None:
        """Let a pod go that no watch of ours can see, having lost our label: nobody else ever would."""
        if there.held and there.deleting and not there.job:
            with contextlib.suppress(ClusterError):  # without the right to, `trainshed release` has to
                await let_go(self, there)

    async def _delete(self, path: Path, uid: str, grace: int | None, version: str = "") -> bytes | None:
        known = {"uid": uid} | ({"resourceVersion": version} if version else {})
        slack = {} if grace is None else {"gracePeriodSeconds": grace}
        options = {"preconditions": known, "propagationPolicy": "Background"} | slack
        try:
            return await persistently(lambda: self._write(self.lanes.deletes, "DELETE", path, options))
        except Missing:
            return None
        except Conflict as error:
            if version:
                raise
            if ((await self._read(path)) or {}).get("metadata", {}).get("uid") == uid:
                raise Unavailable(str(error)) from None  # the server has stumbled, and nothing is done
            return None  # another has the name by now

    async def _write(self, lane: Lane, verb: str, path: Path, body: object) -> bytes:
        """One write, once there is room for it and if we still may then."""
        return await lane.run(path.namespace, lambda: self._wire.write(verb, path, body, self._may_write))


def _remaining(found: Child, uid: str) -> Child | None:
    """What is left of this one."""
    return found if found.uid == uid and found.deleting else None
