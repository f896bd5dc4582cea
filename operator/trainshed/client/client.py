"""The verbs of the API server that the operator uses, with their retries and preconditions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from trainshed.api.actions import CreatePod
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL, RESTART_ATTEMPT_ANNOTATION, Dependent, Pod, Resource, Service
from trainshed.api.patches import has_values
from trainshed.client import UNCALLED, ApiError, Conflict, LabelRemoved, NotFound, TooManyRequests, Unavailable

from .flow_control import RETRY_DELAY, Limiter, Limiters, TokenBucket, retry
from .lists import (
    DOCUMENTS,
    EVENTS,
    JOBS,
    JSON_OBJECT,
    KEPT_BYTES,
    METADATA,
    MOST_BYTES,
    PODS,
    SERVICES,
    Decoder,
    decode_items,
    dependent_decoder,
    list_pages,
)
from .ownership import Child, altered, label_removed, missing_label, owned_by_other, renamed, require_unaltered
from .transport import FIELD_MANAGER, AlreadyExists, Path, RestClient

T = TypeVar("T")
CORE, LEASES = "/api/v1", "/apis/coordination.k8s.io/v1"
#: Events after which no further page is read.
MOST_EVENTS = 20_000
#: The namespace of the Events about nodes, and those of a node after which no further page is read.
EVENTS_OF_NODES, EVENTS_OF_NODE = "default", 1000
#: What the API server says about a name that is taken.
EXISTS = re.compile(r'"([^"]+)" already exists')
WRONG_CRD = (
    "the CRD of %s drops status fields (%s), so restarts are not counted: it is not Trainshed's CRD;"
    " run kubectl replace -f crds/kubeflow.org_%s.yaml"
)

log = logging.getLogger(__name__)


class ApiClient:
    """Implements `trainshed.client.Client`; a write waits for a limiter and the token bucket, and needs `may_write`."""

    def __init__(
        self, rest: RestClient, token_bucket: TokenBucket, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self.rest = rest
        self.may_write = may_write
        self.limiters = Limiters(token_bucket)
        self._warned: set[str] = set()

    async def read_job(self, framework: Framework, namespace: str, name: str) -> Document | None:
        """Read the job from the server, bypassing caches; None if it does not exist.

        No job has an empty name, as the label of a pod may have it: that would be the path of the list.
        """
        if not name:
            return None
        path = Path(framework.prefix, framework.plural, namespace, name)
        return await self.limiters.reads.run(namespace, lambda: self._read(path, JOBS))

    async def store_status(self, framework: Framework, namespace: str, name: str, patch: Document) -> Document:
        """Merge `patch` into the status; raises `Conflict`, and `NotFound` if the job does not exist."""
        path = Path(framework.prefix, framework.plural, namespace, name, "status")
        try:
            stored = JOBS.answer(await self._write(self.limiters.statuses, "PATCH", path, patch))
        except Unavailable:
            await asyncio.sleep(RETRY_DELAY)
            found = await self.read_job(framework, namespace, name)
            if found is None or not patch_is_applied(patch, found):
                raise
            stored = found
        kept = (stored.get("status") or {}).keys()
        dropped = {key for key, value in patch["status"].items() if value is not None} - kept
        if dropped and framework.plural not in self._warned:
            self._warned.add(framework.plural)
            log.warning(WRONG_CRD, framework.plural, ", ".join(sorted(dropped)), framework.plural)
        return stored

    async def read_pods(self, namespace: str, job: str) -> tuple[list[Pod], str]:
        """List the pods with the label of a job; return them and the resourceVersion of the list."""
        path, selector = Path(CORE, "pods", namespace), {"labelSelector": f"{JOB_NAME_LABEL}={job}"}

        async def read() -> tuple[list[Pod], str]:
            found: list[Pod] = []
            version = ""
            async for page in list_pages(self.rest, path, selector):
                found.extend(decode_items(PODS, page, path.plural))
                version = page.metadata.version
            return found, version

        return await self.limiters.lists.run(namespace, read)

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """Read a pod from the server, bypassing caches; None if it does not exist."""
        path = Path(CORE, "pods", namespace, name)
        return await self.limiters.reads.run(namespace, lambda: self._read(path, PODS))

    async def seek_pod(self, namespace: str, name: str, owner: str) -> None:
        """Check that `owner` controls no pod of this name; raises `LabelRemoved` if no watch selects that pod."""
        path = Path(CORE, "pods", namespace, name)
        try:
            content = await self.limiters.reads.run(namespace, lambda: self.rest.call("GET", path))
        except NotFound:
            return
        meta = METADATA.answer(content)
        if meta.controller == owner:
            if why := missing_label("pod", meta):
                raise LabelRemoved(why, PODS.answer(content))
            raise Unavailable(f"pod {name} exists, but the watch has not delivered it yet")

    async def read_events(self, namespace: str, kind: str, take: Callable[[Document], None]) -> None:
        """List Events with the reason `Unschedulable` about objects of this kind: text, times, and about which."""
        path = Path(CORE, "events", namespace)
        query = {"fieldSelector": f"involvedObject.kind={kind},reason=Unschedulable"}

        async def read() -> None:
            left = MOST_EVENTS
            async for page in list_pages(self.rest, path, query):
                for event in decode_items(EVENTS, page, path.plural):
                    take(event)
                left -= len(page.items)
                if left <= 0:  # anyone who may create Events can create these
                    break

        await self.limiters.lists.run(namespace, read)

    async def read_node(self, name: str) -> tuple[Document, list[Document]]:
        """Read a node and the Events about it, `EVENTS_OF_NODE` at least if there are more; empty if it is gone."""
        path = Path(CORE, "events", EVENTS_OF_NODES)
        query = {"fieldSelector": f"involvedObject.kind=Node,involvedObject.name={name}"}

        async def read() -> tuple[Document, list[Document]]:
            node = await self._read(Path(CORE, "nodes", "", name), DOCUMENTS)
            events: list[Document] = []
            async for page in list_pages(self.rest, path, query):
                events.extend(decode_items(EVENTS, page, path.plural))
                if len(events) >= EVENTS_OF_NODE:
                    break
            return node or {}, events

        return await self.limiters.reads.run(EVENTS_OF_NODES, read)

    async def delete_job(self, framework: Framework, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the job with this uid, with background propagation; raises `Conflict` or `NotFound`."""
        if await self._delete(Path(framework.prefix, framework.plural, namespace, name), uid, None, version) is None:
            raise NotFound(f"{framework.kind} {namespace}/{name}")

    async def create_pod(self, namespace: str, pod: CreatePod) -> Pod:
        """Create a pod; raises `NameConflict` if another controller has a pod of that name."""
        content, is_new = await self._create(Path(CORE, "pods", namespace), pod.build)
        found = require_unaltered(PODS.answer(content), "Pod", pod.name, pod.owner)
        if not found.job:  # a webhook has removed it: no watch will say anything about this pod
            raise LabelRemoved(label_removed("pod", found.name), found)
        if is_new and found.attempt != pod.attempt:  # it is deleted as an old one
            raise altered("Pod", pod.name, f"its annotation {RESTART_ATTEMPT_ANNOTATION}", found)
        return found

    async def create_service(self, namespace: str, body: Document) -> Service:
        """Create a Service; raises `NameConflict` if another controller has one of that name."""
        content, _ = await self._create(Path(CORE, "services", namespace), lambda: body)
        return require_unaltered(SERVICES.answer(content), *_identity(body))

    async def create_secret(self, namespace: str, body: Document) -> None:
        """Create a Secret; an existing one is success, and is not read: the operator may not read Secrets."""
        path = Path(CORE, "secrets", namespace)
        with contextlib.suppress(AlreadyExists):
            await retry(lambda: self._write(self.limiters.creates, "POST", path, body))

    async def create_dependent(self, resource: Resource, namespace: str, body: Document) -> Dependent:
        """Create a dependent, or return the job's own; raises `NameConflict` if another controller has one."""
        content, _ = await self._create(Path(resource.prefix, resource.plural, namespace), lambda: body)
        return require_unaltered(dependent_decoder(resource).answer(content), *_identity(body))

    async def update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> Dependent:
        """Merge `patch` into a dependent; raises `Conflict`, and `NotFound` if it does not exist."""
        path = Path(resource.prefix, resource.plural, namespace, name)
        return dependent_decoder(resource).answer(await self._write(self.limiters.creates, "PATCH", path, patch))

    async def delete_pod(self, namespace: str, name: str, uid: str, grace: int | None, version: str) -> Pod | None:
        """Delete the pod with this uid and version; return it while it is terminating. Raises `Conflict`."""
        left = await self._delete(Path(CORE, "pods", namespace, name), uid, grace, version)
        return _remaining(PODS.answer(left), uid) if left else None

    async def release_pod(self, namespace: str, name: str, patch: Document) -> Pod | None:
        """Merge `patch` into a pod; raises `Conflict`. Return None if it is gone, or if this write removes it."""
        try:
            left = await self._write(self.limiters.deletes, "PATCH", Path(CORE, "pods", namespace, name), patch)
        except NotFound:
            return None
        found = PODS.answer(left)
        return None if found.deleting and not (found.grace or found.finalizers) else found

    async def delete_service(self, namespace: str, name: str, uid: str) -> Service | None:
        """Delete the Service with this uid; return it while it is terminating."""
        left = await self._delete(Path(CORE, "services", namespace, name), uid, None)
        return _remaining(SERVICES.answer(left), uid) if left else None

    async def delete_dependent(self, resource: Resource, namespace: str, name: str, uid: str) -> Dependent | None:
        """Delete the dependent with this uid; return it while it is terminating."""
        left = await self._delete(Path(resource.prefix, resource.plural, namespace, name), uid, None)
        return _remaining(dependent_decoder(resource).answer(left), uid) if left else None

    def is_busy(self) -> bool:
        """Return whether objects wait to be created, besides those in namespaces that answer slowly."""
        return self.limiters.creates.is_busy

    async def create_event(self, namespace: str, body: Document) -> None:
        """Create a core/v1 Event; its name makes a repeated request fail with `Conflict` instead of a duplicate."""
        await retry(lambda: self._write(self.limiters.events, "POST", Path(CORE, "events", namespace), body))

    async def update_event(self, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into an Event; raises `NotFound` if the server has removed it."""
        path = Path(CORE, "events", namespace, name)
        await retry(lambda: self._write(self.limiters.events, "PATCH", path, patch))

    async def read_lease(self, namespace: str, name: str) -> Document | None:
        """Return the Lease, or None if it does not exist."""
        return await self._read(Path(LEASES, "leases", namespace, name), DOCUMENTS)

    async def write_lease(self, namespace: str, name: str, body: Document) -> Document:
        """Create the Lease, or replace it at its version; raises `Conflict` if it has changed."""
        exists = "resourceVersion" in body.get("metadata", {})
        path = Path(LEASES, "leases", namespace, name if exists else "")
        return DOCUMENTS.answer(await self.rest.call("PUT" if exists else "POST", path, body, FIELD_MANAGER))

    async def serves(self, resource: Resource) -> bool:
        """Return whether the server serves this kind of object, that is, its CRD is installed."""
        group = await self._read(Path("/apis", resource.api_version), DOCUMENTS)
        return any(item["name"] == resource.plural for item in (group or {}).get("resources", ()))

    async def _read(self, path: Path, kind: Decoder[T]) -> T | None:
        try:
            return kind.answer(await self.rest.call("GET", path))
        except NotFound:
            return None

    async def _create(self, path: Path, build: Callable[[], Document]) -> tuple[bytes, bool]:
        """Create an object; return it, and whether it did not exist before."""
        try:
            write = partial(self._write_built, self.limiters.creates, "POST", path, build)
            return await retry(write, _is_webhooks), True
        except AlreadyExists as error:
            return await self._ours(path, build(), error), False

    async def _ours(self, path: Path, body: Document, error: AlreadyExists) -> bytes:
        """Return the existing object of that name, if it is the one that was to be created.

        Raises `Conflict` if it is gone by now, as an object of a previous job may be.
        """
        kind, name = body["kind"], body["metadata"]["name"]
        try:
            content = await self.rest.call("GET", Path(path.prefix, path.plural, path.namespace, name))
        except NotFound:
            if (other := EXISTS.search(str(error))) and other[1] != name:
                raise renamed(kind, name, other[1]) from None
            raise Conflict(f"{kind} {name} existed, and is gone; it can be created now") from None
        kind, meta = path.plural[:-1], METADATA.answer(content)
        taken, hidden = owned_by_other(kind, meta, body), missing_label(kind, meta)
        found = PODS.answer(content) if (taken or hidden) and kind == "pod" else None
        if taken:
            taken.pod = found
            raise taken
        if hidden:
            raise LabelRemoved(hidden, found)
        return content

    async def _delete(self, path: Path, uid: str, grace: int | None, version: str = "") -> bytes | None:
        known = {"uid": uid} | ({"resourceVersion": version} if version else {})
        period = {} if grace is None else {"gracePeriodSeconds": grace}
        options = {"preconditions": known, "propagationPolicy": "Background"} | period
        try:
            return await retry(lambda: self._write(self.limiters.deletes, "DELETE", path, options), _is_no_throttling)
        except NotFound:
            return None
        except Conflict as error:
            if version:
                raise
            there = await self._read(path, METADATA)
            if there and there.uid == uid:
                raise Unavailable(str(error)) from None  # an internal conflict of the server: nothing was done
            return None  # another object has the name by now

    def _write(self, limiter: Limiter, verb: str, path: Path, body: object) -> Awaitable[bytes]:
        """Send one write as soon as its limiter admits it, if writing is still permitted then."""
        return self._write_built(limiter, verb, path, lambda: body)

    def _write_built(self, limiter: Limiter, verb: str, path: Path, build: Callable[[], object]) -> Awaitable[bytes]:
        """Do the same as `_write`; the body is built when the limiter admits it, and is not kept after it is sent."""
        return limiter.run(path.namespace, lambda: self.rest.write(verb, path, build(), self.may_write))


def _is_webhooks(error: ApiError) -> bool:
    """Return whether an error is that of a webhook, which has it for each object; the plan is tried again later."""
    return error.reason == UNCALLED or (isinstance(error, TooManyRequests) and error.from_webhook)


def _is_no_throttling(error: ApiError) -> bool:
    """Return whether the server does not ask to wait. A deletion is planned again after any error."""
    return not isinstance(error, TooManyRequests) or error.from_webhook


def _identity(body: Document) -> tuple[str, str, str]:
    """Return the kind and the name of an object that is to be created, and the uid of its controller."""
    owners = body["metadata"]["ownerReferences"]
    owner = next(reference["uid"] for reference in owners if reference.get("controller"))
    return body["kind"], body["metadata"]["name"], owner


def _remaining(found: Child, uid: str) -> Child | None:
    """Return the object if it is the one with this uid and still terminating."""
    return found if found.uid == uid and found.deleting else None


CRDS = "/apis/apiextensions.k8s.io/v1"
APPS = "/apis/apps/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Lister:
    """Reads lists; every method may raise a `trainshed.client.ApiError`."""

    def __init__(self, rest: RestClient) -> None:
        self.rest = rest

    async def all(self, path: Path, kind: Decoder[T], label: str = "") -> list[T]:
        """List the objects at `path`, with `label` if it is set; none if the server does not serve the kind."""
        selector = {"labelSelector": label} if label else {}
        try:
            pages = list_pages(self.rest, path, selector, most_bytes=KEPT_BYTES if kind is DOCUMENTS else MOST_BYTES)
            return [kind.answer(item) async for page in pages for item in page.items]
        except NotFound:
            return []

    async def tracked_pods(self, namespace: str) -> list[Pod]:
        """List the pods with Trainshed's finalizer, of all namespaces if it is ""; the others may fill the memory.

        A pod that cannot be decoded is logged and skipped. No label selects them: each one can be removed.
        """
        path = Path(CORE, "pods", namespace)
        pages = list_pages(self.rest, path, {})
        return [pod async for page in pages for pod in decode_items(PODS, page, path.plural) if pod.has_finalizer]

    async def definitions(self) -> list[Document]:
        """List all CustomResourceDefinitions."""
        return await self.all(Path(CRDS, "customresourcedefinitions"), DOCUMENTS)

    async def deployments(self, keep: Callable[[Document], Document | None]) -> list[Document]:
        """List what `keep` returns of each Deployment of all namespaces: all of them may fill the memory."""
        kind = Decoder(JSON_OBJECT, lambda found, _: keep(found))
        return [item for item in await self.all(Path(APPS, "deployments"), kind) if item is not None]

    async def webhooks(self) -> list[Document]:
        """List all ValidatingWebhookConfigurations."""
        return await self.all(Path(ADMISSION, "validatingwebhookconfigurations"), DOCUMENTS)

    async def bindings(self) -> list[Document]:
        """List all ClusterRoleBindings."""
        return await self.all(Path(RBAC, "clusterrolebindings"), DOCUMENTS)


def patch_is_applied(patch: Document, found: Document) -> bool:
    """Return whether the patch was applied although its response was lost.

    The job that was read has then changed, and contains the values of the patch.
    """
    metadata, wanted = found["metadata"], patch["metadata"]
    changed = metadata["resourceVersion"] != wanted["resourceVersion"]
    return changed and metadata["uid"] == wanted["uid"] and has_values(found.get("status") or {}, patch["status"])
