"""The API server: requests in, answers out, at once and without any I/O; what it knows is gone with it.

It speaks of the objects in `resources.py` as the real one does (`make sim-conformance` compares them), but for
managed fields, and some fields that admission fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from support.audit.change import CREATED, DELETED, MODIFIED, Change
from support.audit.change import Request as Asked
from trainshed.client.transport import Answer, Request

from .answers import Refusal, bad, expired, missing
from .departure import Options
from .lists import listed
from .paths import Map, Target
from .registry import Registry, place
from .resources import BUILT_IN, PODS, Resource, Table, custom
from .selectors import matcher
from .storage import Commit, Expired, Storage, Stored
from .watches import Sink, Watch, Watches, line

Document = dict[str, Any]
#: So many slashes are in the path of a group and version, `/apis/group/version`.
DEPTH = 3
NOTHING: Mapping[str, str] = {}


class Server:
    """See the module. `now` is the time of day in seconds since 1970, by the server's own clock.

    `changes` are told each change that is committed, `requests` each request but a watch's.
    """

    def __init__(self, now: Callable[[], float], seed: int = 0, resources: Iterable[Resource] | None = None) -> None:
        self.storage = Storage()
        self.storage.told.append(self._tell)
        self.table = Table(BUILT_IN + custom() if resources is None else resources)
        self._map = Map(self.table)
        self.registry = Registry(self.storage, now, seed)
        self.watches = Watches(self.storage)
        self.changes: list[Callable[[Change], None]] = []
        self.requests: list[Callable[[str, Asked], None]] = []
        self._now = now
        self._actor = ""

    # ------------------------------------------------------------------------------------------ documents in and out

    def request(
        self, actor: str, verb: str, path: str, query: Mapping[str, str] = NOTHING, body: Document | None = None
    ) -> Document:
        """A request of somebody in the world, and what the server says; PATCH merges. Raises `Refusal`."""
        data = None if body is None else orjson.dumps(body)
        answer = self.answer(actor, Request(verb, path, query, "application/json", data))
        if answer.status >= 400:
            raise _refusal(answer)
        found: Document = orjson.loads(answer.content)
        return found

    def object(self, path: str) -> Document | None:
        """The object at a path, which nobody may change, or None."""
        target = self._map.target(path)
        found = self.storage.get(target.resource, place(target.namespace, target.name))
        return found.document if found else None

    def objects(self, plural: str, namespace: str = "") -> list[Document]:
        """All objects of a kind, which nobody may change, in the order of their names."""
        prefix = f"{namespace}/" if namespace else ""
        return [
            stored.document
            for resource in self.table.all
            if resource.plural == plural
            for key, stored in sorted(self.storage.table(resource).items())
            if key.startswith(prefix)
        ]

    def make_namespace(self, name: str) -> None:
        """A namespace, as any object needs one."""
        self.request("user", "POST", "/api/v1/namespaces", body={"metadata": {"name": name}})

    # ---------------------------------------------------------------------------------------------- bytes in and out

    def answer(self, actor: str, request: Request, behind: int | None = None) -> Answer:
        """One request and its answer; a list is as of the version `behind`, if that is given."""
        before, self._actor = self._actor, actor
        try:
            found = self._serve(request, behind)
        except Refusal as refusal:
            found = Answer(refusal.code, refusal.content, refusal.wait)
        finally:
            self._actor = before
        for told in self.requests:
            told(actor, Asked(self._now(), request.verb, request.path, found.status))
        return found

    def watch(self, path: str, query: Mapping[str, str], sink: Sink) -> Watch:
        """Open a watch, whose lines go into `sink`; raises `Refusal`.

        One from a version that is forgotten is told so in a line, and is `over` at once.
        """
        target = self._map.target(path)
        matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        watch = Watch(target.resource, target.namespace, matches, sink)
        version = query.get("resourceVersion", "")
        try:
            self.watches.open(watch, int(version) if version not in ("", "0") else None)
        except Expired:
            said = expired(f"too old resource version: {version} ({self.storage.compacted})")
            sink(line("ERROR", said.content))
            watch.over = True
        return watch

    def _serve(self, request: Request, behind: int | None) -> Answer:
        if request.path.count("/") <= DEPTH and (kinds := self._kinds(request.path)):
            return Answer(200, kinds)
        target = self._map.target(request.path)
        if request.verb == "GET" and not target.name:
            return Answer(200, listed(self.storage, target.resource, target.namespace, request.query, behind))
        if request.verb == "GET":
            return Answer(200, self._found(target).raw)
        return self._write(request.verb, target, _document(request.body))

    def _write(self, verb: str, target: Target, document: Document) -> Answer:
        resource, namespace, name = target.resource, target.namespace, target.name
        if verb == "DELETE":
            return self._delete(target, document)
        if target.part in ("binding", "eviction", "finalize"):
            return self._ask_of(target, document)
        if verb == "POST":
            return Answer(201, self.registry.create(resource, namespace, document).raw)
        if verb == "PATCH":
            return Answer(200, self.registry.merge(resource, namespace, name, document, target.part).raw)
        before = self.storage.get(resource, place(namespace, name))
        after = self.registry.replace(resource, namespace, name, document, target.part)
        return Answer(200 if before else 201, after.raw)

    def _found(self, target: Target) -> Stored:
        found = self.storage.get(target.resource, place(target.namespace, target.name))
        if found is None:
            raise missing(target.resource.full, target.name)
        return found

    def _delete(self, target: Target, options: Document) -> Answer:
        resource = target.resource
        left, gone = self.registry.delete(resource, target.namespace, target.name, Options.read(options))
        if not gone or resource.shown_when_deleted:
            return Answer(200, orjson.dumps(left))
        details = {
            "name": target.name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": left["metadata"]["uid"],
        }
        details = {key: value for key, value in details.items() if value}
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Answer(200, orjson.dumps(said))

    def _ask_of(self, target: Target, document: Document) -> Answer:
        """What is asked of a pod, or of a namespace, by a subresource that only takes."""
        if target.part == "finalize":
            self.registry.finish(target.resource, target.name)
            return Answer(200, b"{}")
        said = orjson.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
        if target.part == "binding":
            self.registry.bind(target.namespace, target.name, document["target"]["name"])
            return Answer(201, said)
        options = Options.read(document.get("deleteOptions") or {})
        self.registry.delete(PODS, target.namespace, target.name, options)
        return Answer(201, said)

    def _kinds(self, path: str) -> bytes:
        """Which kinds there are in a group and version; nothing if the path is no such place."""
        found = [
            {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced} for kind in self.table.within(path)
        ]
        said = {"kind": "APIResourceList", "groupVersion": path.removeprefix("/apis/"), "resources": found}
        return orjson.dumps(said) if found else b""

    def _tell(self, commit: Commit) -> None:
        if not self.changes:
            return
        before = commit.before.document if commit.before else None
        verb = DELETED if commit.deleted else CREATED if before is None else MODIFIED
        after = None if commit.deleted else commit.after.document
        change = Change(self._now(), self._actor, verb, commit.resource.plural, before, after)
        for told in self.changes:
            told(change)


def _refusal(answer: Answer) -> Refusal:
    try:
        found = orjson.loads(answer.content)
    except ValueError:
        return Refusal(answer.status, "", answer.content.decode(), answer.wait)
    return Refusal(answer.status, found["reason"], found["message"], answer.wait)


def _document(body: bytes | None) -> Document:
    try:
        found = orjson.loads(body) if body else {}
    except ValueError as error:
        raise bad(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(found, dict):
        raise bad("the object provided is unrecognized")
    return found
