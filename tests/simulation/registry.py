"""The writes: create, replace, merge, delete, each with its preconditions, as the real server's registry has them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from . import admission, metadata, pods
from .answers import Refusal, bad, changed, conflict, exists, invalid, missing
from .departure import Departure, Options
from .merge import merged
from .resources import NAMESPACES, PODS, Resource
from .storage import Storage, Stored

Document = dict[str, Any]


HEAD = frozenset(("apiVersion", "kind", "metadata"))


class Registry:
    """Writes into a storage; `now` is the time of day in seconds since 1970. Everything may raise `Refusal`."""

    def __init__(self, storage: Storage, now: Callable[[], float], seed: int = 0) -> None:
        self._storage = storage
        self._now = now
        self._seed = seed
        self._born = 0
        self._departure = Departure(storage, self.stamp)

    def stamp(self, later: float = 0) -> str:
        """The time of day, or that of some seconds later, as the server writes it."""
        return datetime.fromtimestamp(int(self._now() + later), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, resource: Resource, namespace: str, body: Document) -> Stored:
        """Make an object; returns it as stored."""
        body = metadata.named(body, namespace, "", f"{self._born:05x}")
        return self._create(resource, namespace, body)

    def replace(self, resource: Resource, namespace: str, name: str, body: Document, part: str = "") -> Stored:
        """Put an object, or its `status`, in the place of the one that is there."""
        body = metadata.named(body, namespace, name, "")
        found = self._storage.get(resource, place(namespace, name))
        if found is None:
            if resource.made_by_put and not part:
                metadata.check_uid(resource, name, body["metadata"].get("uid"), "")
                body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}}
                return self._create(resource, namespace, body)
            raise missing(resource.full, name)
        metadata.check_uid(resource, name, body["metadata"].get("uid"), found.uid)
        if not resource.unconditional and not body["metadata"].get("resourceVersion"):
            raise invalid(
                resource.kind, name, "metadata.resourceVersion: Invalid value: must be specified for an update"
            )
        self._check_kind(resource, body)
        return self._update(resource, found, body, part)

    def merge(self, resource: Resource, namespace: str, name: str, patch: Document, part: str = "") -> Stored:
        """Merge a patch into an object, or into its `status`."""
        found = self._storage.get(resource, place(namespace, name))
        if found is None:
            raise missing(resource.full, name)
        body = merged(found.document, patch)
        if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
            raise bad("the patch leaves no object")
        body = metadata.named(body, namespace, name, "")
        self._check_kind(resource, body)
        return self._update(resource, found, body, part)

    def delete(self, resource: Resource, namespace: str, name: str, options: Options) -> tuple[Document, bool]:
        """Delete an object, or begin to; what it is by now, and whether it is gone."""
        found = self._storage.get(resource, place(namespace, name))
        if found is None:
            raise missing(resource.full, name)
        return self._departure.begin(resource, place(namespace, name), found, options)

    def bind(self, namespace: str, name: str, node: str) -> Stored:
        """Give a pod its node."""
        found = self._storage.get(PODS, place(namespace, name))
        if found is None:
            raise missing("pods", name)
        metadata_ = found.document["metadata"]
        if found.document["spec"].get("nodeName"):
            raise conflict(
                "pods/binding", name, f'pod {name} is already assigned to node "{found.document["spec"]["nodeName"]}"'
            )
        if "deletionTimestamp" in metadata_:
            raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        return self._storage.put(PODS, place(namespace, name), pods.bound(found.document, node, self.stamp()))

    def finish(self, resource: Resource, key: str) -> None:
        """Let an object go at once, whatever holds it: what a namespace that goes does in the end."""
        self._storage.drop(resource, key)

    def _create(self, resource: Resource, namespace: str, body: Document) -> Stored:
        name = body["metadata"]["name"]
        self._check_kind(resource, body)
        admission.enter(self._storage, resource, namespace, name)
        self._born += 1
        uid = f"{self._born:08x}-5eed-4000-8000-{self._seed:012x}"
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        made = {**body, **head, "metadata": metadata.born(resource, body["metadata"], uid, self.stamp())}
        if resource.status:
            made.pop("status", None)
        made = resource.born(_shaped(resource, made, None))
        if resource is NAMESPACES:
            made = {**made, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        admission.count(self._storage, resource, namespace, name)
        if body["metadata"].get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        if self._storage.get(resource, place(namespace, name)) is not None:
            raise exists(resource.full, name)
        return self._storage.put(resource, place(namespace, name), made)

    def _update(self, resource: Resource, found: Stored, body: Document, part: str) -> Stored:
        before = found.document
        if part and resource.structure is not None:  # its metadata are passed over, its uid as well
            metadata.check_version(resource, before["metadata"], body["metadata"])
            about = before["metadata"]
        else:
            told = _owned_alike(body["metadata"], before["metadata"]) if part else body["metadata"]
            about = metadata.kept(resource, before["metadata"], told)
        after = self._status_of(resource, before, body, about) if part else self._rest_of(resource, before, body, about)
        if after == before:
            return found
        key = place(about.get("namespace", ""), about["name"])
        if self._departure.is_over(before, after):
            self._storage.drop(resource, key)
            return Stored(after, found.version)
        return self._storage.put(resource, key, after)

    def _status_of(self, resource: Resource, before: Document, body: Document, about: Document) -> Document:
        """A new status, and nothing else; with built-in kinds, labels and the like may come along."""
        after = {**before, "metadata": about, **_part(body, "status")}
        if "status" not in body:
            after.pop("status", None)
        return pods.told(before, after) if resource is PODS else _shaped(resource, after, before, "status")

    def _rest_of(self, resource: Resource, before: Document, body: Document, about: Document) -> Document:
        """Everything but the status, if that is a subresource."""
        after = {**body, "apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": about}
        if resource.status:
            after.pop("status", None)
            after |= _part(before, "status")
        after = resource.changed(before, _shaped(resource, after, before))
        if resource.counted and any(
            after.get(field) != before.get(field) for field in {*after, *before} - {"metadata", "status"}
        ):
            after = {**after, "metadata": {**about, "generation": about.get("generation", 0) + 1}}
        return after

    @staticmethod
    def _check_kind(resource: Resource, body: Document) -> None:
        told = (body.get("apiVersion", resource.api_version), body.get("kind", resource.kind))
        if told != (resource.api_version, resource.kind) and resource.structure is not None:
            raise invalid(resource.kind, body["metadata"]["name"], f"kind: Invalid value: must be {resource.kind}")
        if told != (resource.api_version, resource.kind):
            raise bad(f"{told[1]} in version {told[0]} cannot be handled as a {resource.kind}")


def _owned_alike(metadata_: Document, before: Document) -> Document:
    """Metadata with the owners that there were: old kubelets spoilt them."""
    rest = {key: value for key, value in metadata_.items() if key != "ownerReferences"}
    return rest | _part(before, "ownerReferences")


def _part(document: Document, field: str) -> Document:
    return {field: document[field]} if field in document else {}


def _shaped(resource: Resource, document: Document, before: Document | None, only: str = "") -> Document:
    if resource.fields:
        return {key: value for key, value in document.items() if key in HEAD or key in resource.fields}
    if resource.structure is None:
        return document
    shaped = resource.structure.shape(document, only)
    problems = resource.structure.problems(shaped, before, only)
    if problems:
        raise invalid(f"{resource.kind}.{resource.group}", shaped["metadata"]["name"], ", ".join(problems))
    return shaped


def place(namespace: str, name: str) -> str:
    """The key of an object."""
    return f"{namespace}/{name}" if namespace else name


__all__ = ["Options", "Registry", "changed", "place"]
