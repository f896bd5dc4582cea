"""An API server that handles requests at once and without I/O, and keeps its objects in memory.

It behaves as the real one for the resources in `resources.py` (`make sim-conformance` compares them), but for managed
fields and some fields that admission fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson

from trainshed.client.transport import Answer, Request

from .built_in import PODS
from .errors import StatusError, bad_request, expired, not_found
from .registry import DeleteOptions, Registry, object_key
from .resources import PathParser, RequestPath, ResourceTable, ServedResource
from .versioned_store import Expired, StoredObject, VersionedStore
from .watch import Sink, Watch, Watches, event_line, list_objects, matcher

Document = dict[str, Any]
#: The number of slashes in the path of a group and version, `/apis/group/version`.
DEPTH = 3
NOTHING: Mapping[str, str] = {}


class Server:
    """See the module. `now` is the server's time of day in seconds since 1970.

    `seed` is that of `Registry`, `history` that of `VersionedStore`. `actor` is who has sent the request that
    is being handled. `listeners` are called with each request except watches, its actor and the status of its response;
    those of `store` with each change.
    """

    def __init__(
        self,
        now: Callable[[], float],
        resources: Iterable[ServedResource],
        *,
        seed: int = 0,
        history: int = 0,
    ) -> None:
        self.now = now
        self.store = VersionedStore(history)
        self.resources = ResourceTable(resources)
        self.registry = Registry(self.store, now, seed)
        self.watches = Watches(self.store)
        self.actor = ""
        self.listeners: list[Callable[[str, Request, int], None]] = []
        self._paths = PathParser(self.resources)

    # ------------------------------------------------------------------------------------------ documents in and out

    def request(
        self, actor: str, verb: str, path: str, query: Mapping[str, str] = NOTHING, body: Document | None = None
    ) -> Document:
        """Handle a request with a document as its body; PATCH is a merge patch. Raises `StatusError`."""
        data = None if body is None else orjson.dumps(body)
        answer = self.handle(actor, Request(verb, path, query, "application/json", data))
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(answer)
        found: Document = orjson.loads(answer.content)
        return found

    def object(self, path: str) -> Document | None:
        """Return the object at a path, which the caller must not change, or None."""
        target = self._paths.parse(path)
        found = self.store.get(target.resource, object_key(target.namespace, target.name))
        return found.document if found else None

    def objects(self, plural: str, namespace: str = "") -> list[Document]:
        """Return all objects of a resource in the order of their names; the caller must not change them."""
        prefix = f"{namespace}/" if namespace else ""
        return [
            stored.document
            for resource in self.resources.all
            if resource.plural == plural
            for key, stored in sorted(self.store.table(resource).items())
            if key.startswith(prefix)
        ]

    def make_namespace(self, name: str) -> None:
        """Create a namespace."""
        self.request("user", "POST", "/api/v1/namespaces", body={"metadata": {"name": name}})

    # ---------------------------------------------------------------------------------------------- bytes in and out

    def handle(self, actor: str, request: Request, behind: int | None = None) -> Answer:
        """Handle a request; a list is as of the version `behind`, if given."""
        before, self.actor = self.actor, actor
        try:
            found = self._serve(request, behind)
        except StatusError as refusal:
            found = Answer(refusal.code, refusal.content, refusal.wait)
        finally:
            self.actor = before
        for listener in self.listeners:
            listener(actor, request, found.status)
        return found

    def watch(self, path: str, query: Mapping[str, str], sink: Sink) -> Watch:
        """Open a watch that sends its lines to `sink`; raises `StatusError`.

        A watch from a compacted version gets an error event and is `closed` at once.
        """
        target = self._paths.parse(path)
        matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        watch = Watch(target.resource, target.namespace, matches, sink)
        version = query.get("resourceVersion", "")
        try:
            self.watches.open(watch, int(version) if version not in ("", "0") else None)
        except Expired:
            error = expired(f"too old resource version: {version} ({self.store.compacted})")
            sink(event_line("ERROR", error.content))
            watch.closed = True
        return watch

    def _serve(self, request: Request, behind: int | None) -> Answer:
        if request.path.count("/") <= DEPTH and (kinds := self._kinds(request.path)):
            return Answer(200, kinds)
        target = self._paths.parse(request.path)
        if request.verb == "GET" and not target.name:
            return Answer(200, list_objects(self.store, target.resource, target.namespace, request.query, behind))
        if request.verb == "GET":
            return Answer(200, self._get(target).raw)
        return self._write(request.verb, target, _document(request.body))

    def _write(self, verb: str, target: RequestPath, document: Document) -> Answer:
        resource, namespace, name = target.resource, target.namespace, target.name
        if verb == "DELETE":
            return self._delete(target, document)
        if target.part in ("binding", "eviction", "finalize"):
            return self._subresource(target, document)
        if verb == "POST":
            return Answer(201, self.registry.create(resource, namespace, document).raw)
        if verb == "PATCH":
            return Answer(200, self.registry.merge(resource, namespace, name, document, target.part).raw)
        before = self.store.get(resource, object_key(namespace, name))
        after = self.registry.replace(resource, namespace, name, document, target.part)
        return Answer(200 if before else 201, after.raw)

    def _get(self, target: RequestPath) -> StoredObject:
        found = self.store.get(target.resource, object_key(target.namespace, target.name))
        if found is None:
            raise not_found(target.resource.full_name, target.name)
        return found

    def _delete(self, target: RequestPath, options: Document) -> Answer:
        resource = target.resource
        left, removed = self.registry.delete(resource, target.namespace, target.name, DeleteOptions.read(options))
        if not removed or resource.returned_on_delete:
            return Answer(200, orjson.dumps(left))
        details = {
            "name": target.name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": left["metadata"]["uid"],
        }
        details = {key: value for key, value in details.items() if value}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Answer(200, orjson.dumps(status))

    def _subresource(self, target: RequestPath, document: Document) -> Answer:
        """Handle a write to a subresource of a pod or a namespace that cannot be read."""
        if target.part == "finalize":
            self.registry.remove(target.resource, target.name)
            return Answer(200, b"{}")
        done = orjson.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
        if target.part == "binding":
            self.registry.bind(target.namespace, target.name, document["target"]["name"])
            return Answer(201, done)
        options = DeleteOptions.read(document.get("deleteOptions") or {})
        self.registry.delete(PODS, target.namespace, target.name, options)
        return Answer(201, done)

    def _kinds(self, path: str) -> bytes:
        """Return the discovery document of a group and version; empty if there is none."""
        found = [
            {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced}
            for kind in self.resources.within(path)
        ]
        listed = {"kind": "APIResourceList", "groupVersion": path.removeprefix("/apis/"), "resources": found}
        return orjson.dumps(listed) if found else b""


def _refusal(answer: Answer) -> StatusError:
    try:
        found = orjson.loads(answer.content)
    except ValueError:
        return StatusError(answer.status, "", answer.content.decode(), answer.wait)
    return StatusError(answer.status, found["reason"], found["message"], answer.wait)


def _document(body: bytes | None) -> Document:
    try:
        found = orjson.loads(body) if body else {}
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("the object provided is unrecognized")
    return found
