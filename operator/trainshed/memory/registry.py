"""Create, update, patch and delete with their preconditions and admission, as in the real server's registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from . import strategies
from .built_in import NAMESPACES, PODS, QUOTAS
from .errors import StatusError, already_exists, bad_request, conflict, forbidden, invalid, not_found
from .resources import ServedResource
from .strategies import FINISHED
from .versioned_store import StoredObject, VersionedStore, merge_patch

Document = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
#: The finalizers by which a propagation policy reaches the garbage collector.
FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
HEAD = frozenset(("apiVersion", "kind", "metadata"))


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """DeleteOptions: the grace period in seconds or None, the propagation policy, and the preconditions."""

    grace: int | None = None
    policy: str = ""
    preconditions: Document = field(default_factory=dict)

    @classmethod
    def read(cls, body: Document) -> DeleteOptions:
        """Return the options in the body of a request."""
        policy = body.get("propagationPolicy") or ("Orphan" if body.get("orphanDependents") else "")
        return cls(body.get("gracePeriodSeconds"), policy, body.get("preconditions") or {})


class Deletion:
    """Deletes objects; `timestamp` formats the time of day, plus a number of seconds."""

    def __init__(self, store: VersionedStore, stamp: Callable[[float], str]) -> None:
        self._store = store
        self._timestamp = stamp

    def delete(
        self, resource: ServedResource, key: str, found: StoredObject, options: DeleteOptions
    ) -> tuple[Document, bool]:
        """Delete an object or mark it for deletion; return it and whether it is gone. Raises `StatusError`."""
        _check_preconditions(resource, found.document["metadata"], options.preconditions)
        marked = self._marked(resource, found.document, options)
        if marked is None:  # it was marked before, with the same grace period
            return found.document, False
        metadata = marked["metadata"]
        waits = bool(metadata.get("finalizers")) or metadata.get("deletionGracePeriodSeconds", 0) > 0
        if resource is NAMESPACES:
            waits = True
        if marked != found.document and (waits or resource is PODS):
            found = self._store.put(resource, key, marked)
        if waits:
            return found.document, False
        return self._store.drop(resource, key).document, True

    def completes(self, before: Document, after: Document) -> bool:
        """Return whether an update completes a deletion: it removes the last finalizer."""
        marked = before["metadata"].get("deletionGracePeriodSeconds") == 0
        return marked and not after["metadata"].get("finalizers")

    def _marked(self, resource: ServedResource, document: Document, options: DeleteOptions) -> Document | None:
        """Return the object marked for deletion; None if the mark does not change."""
        if resource is PODS:
            return self._marked_pod(document, options)
        held = _with_policy_finalizer(document["metadata"], options.policy)
        if held.get("finalizers") or resource is NAMESPACES:
            held = self._with_deletion_timestamp(held, 0)
        marked = {**document, "metadata": held}
        if resource is NAMESPACES:
            marked["metadata"] = {key: value for key, value in held.items() if key != "deletionGracePeriodSeconds"}
            marked["status"] = {**document.get("status", {}), "phase": "Terminating"}
        return marked

    def _marked_pod(self, document: Document, options: DeleteOptions) -> Document | None:
        metadata = _with_policy_finalizer(document["metadata"], options.policy)
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if "deletionTimestamp" not in metadata:
            grace = strategies.grace_period(document, options.grace)
            return {**document, "metadata": self._with_deletion_timestamp(metadata, grace)}
        if left == 0:
            return {**document, "metadata": self._with_deletion_timestamp(metadata, 0)}
        if options.grace is None or options.grace >= left:
            return None
        return {**document, "metadata": self._with_shorter_grace(metadata, options.grace - left)}

    def _with_shorter_grace(self, metadata: Document, by: int) -> Document:
        """Return a mark with a shorter grace period; its end is never in the past (rest.BeforeDelete)."""
        due, now = later_timestamp(metadata["deletionTimestamp"], by), self._timestamp(0)
        grace = metadata["deletionGracePeriodSeconds"] + by
        if due < now:
            due, grace = now, min(grace, 1)
        begun = {key: value for key, value in metadata.items() if key != "deletionTimestamp"}
        return {**begun, "deletionTimestamp": due, "deletionGracePeriodSeconds": grace}

    def _with_deletion_timestamp(self, metadata: Document, grace: int) -> Document:
        if "deletionTimestamp" in metadata:
            return {**metadata, "deletionGracePeriodSeconds": grace}
        marked = {**metadata, "deletionTimestamp": self._timestamp(grace), "deletionGracePeriodSeconds": grace}
        if "generation" in metadata:
            marked["generation"] = metadata["generation"] + 1
        return marked


def later_timestamp(stamp: str, seconds: int) -> str:
    """Return a timestamp that is later by this number of seconds."""
    later = datetime.fromisoformat(stamp) + timedelta(seconds=seconds)
    return later.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_policy_finalizer(metadata: Document, policy: str) -> Document:
    """Return the metadata with the finalizer of the policy and without the other one."""
    if not policy:
        return metadata
    before = metadata.get("finalizers") or []
    after = [name for name in before if name not in (ORPHAN, FOREGROUND)]
    after += [FINALIZERS[policy]] if policy in FINALIZERS else []
    if set(after) == set(before):
        return metadata
    rest = {key: value for key, value in metadata.items() if key != "finalizers"}
    return {**rest, "finalizers": after} if after else rest


def _check_preconditions(resource: ServedResource, metadata: Document, preconditions: Document) -> None:
    for field_, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = preconditions.get(field_)
        if wanted and wanted != metadata[field_]:
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {metadata[field_]}"
            raise conflict(resource.full_name, metadata["name"], why)


def admit_to_namespace(store: VersionedStore, resource: ServedResource, namespace: str, name: str) -> None:
    """Raise `StatusError` if the namespace is missing or terminating."""
    if not resource.namespaced:
        return
    found = store.get(NAMESPACES, namespace)
    if found is None:
        raise not_found("namespaces", namespace)
    if found.document.get("status", {}).get("phase") == "Terminating":
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.full_name, name, why)


def check_quota(store: VersionedStore, resource: ServedResource, namespace: str, name: str) -> None:
    """Raise `StatusError` if one more pod exceeds a quota."""
    if resource is not PODS:
        return
    for key, quota in store.table(QUOTAS).items():
        limit = quota.document.get("spec", {}).get("hard", {}).get("pods")
        if limit is None or not key.startswith(f"{namespace}/"):
            continue
        there = counted_pods(store, namespace)
        if there + 1 > int(limit):
            own = quota.document["metadata"]["name"]
            why = f"exceeded quota: {own}, requested: pods=1, used: pods={there}, limited: pods={limit}"
            raise forbidden("pods", name, why)


def counted_pods(store: VersionedStore, namespace: str) -> int:
    """Return the number of pods that a quota counts: those that have not finished."""
    pods = store.table(PODS).items()
    return sum(
        key.startswith(f"{namespace}/") and pod.document["status"].get("phase") not in FINISHED for key, pod in pods
    )


class Registry:
    """Writes into a store; `now` is the time of day in seconds since 1970. Every method may raise `StatusError`.

    `seed` makes the uids.
    """

    def __init__(self, store: VersionedStore, now: Callable[[], float], seed: int) -> None:
        self._store = store
        self._now = now
        self._seed = seed
        self._created = 0
        self._deletion = Deletion(store, self.timestamp)

    def timestamp(self, later: float = 0) -> str:
        """Return the time of day, plus `later` seconds, as a timestamp."""
        return datetime.fromtimestamp(int(self._now() + later), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, resource: ServedResource, namespace: str, body: Document) -> StoredObject:
        """Create an object; return it as stored."""
        body = strategies.with_name(body, namespace, "", f"{self._created:05x}")
        return self._create(resource, namespace, body)

    def replace(
        self, resource: ServedResource, namespace: str, name: str, body: Document, part: str = ""
    ) -> StoredObject:
        """Replace an object, or its `status`."""
        body = strategies.with_name(body, namespace, name, "")
        found = self._store.get(resource, object_key(namespace, name))
        if found is None:
            if resource.create_on_put and not part:
                strategies.check_uid(resource, name, body["metadata"].get("uid"), "")
                body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}}
                return self._create(resource, namespace, body)
            raise not_found(resource.full_name, name)
        strategies.check_uid(resource, name, body["metadata"].get("uid"), found.uid)
        if not resource.unversioned_put and not body["metadata"].get("resourceVersion"):
            raise invalid(
                resource.kind, name, "metadata.resourceVersion: Invalid value: must be specified for an update"
            )
        self._check_kind(resource, body)
        return self._update(resource, found, body, part)

    def merge(
        self, resource: ServedResource, namespace: str, name: str, patch: Document, part: str = ""
    ) -> StoredObject:
        """Apply a merge patch to an object, or to its `status`."""
        found = self._store.get(resource, object_key(namespace, name))
        if found is None:
            raise not_found(resource.full_name, name)
        body = merge_patch(found.document, patch)
        if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
            raise bad_request("the patch leaves no object")
        body = strategies.with_name(body, namespace, name, "")
        self._check_kind(resource, body)
        return self._update(resource, found, body, part)

    def delete(
        self, resource: ServedResource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Document, bool]:
        """Delete an object or mark it for deletion; return it and whether it is gone."""
        found = self._store.get(resource, object_key(namespace, name))
        if found is None:
            raise not_found(resource.full_name, name)
        return self._deletion.delete(resource, object_key(namespace, name), found, options)

    def bind(self, namespace: str, name: str, node: str) -> StoredObject:
        """Bind a pod to a node."""
        found = self._store.get(PODS, object_key(namespace, name))
        if found is None:
            raise not_found("pods", name)
        if found.document["spec"].get("nodeName"):
            raise conflict(
                "pods/binding", name, f'pod {name} is already assigned to node "{found.document["spec"]["nodeName"]}"'
            )
        if "deletionTimestamp" in found.document["metadata"]:
            raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        return self._store.put(
            PODS, object_key(namespace, name), strategies.bind_pod(found.document, node, self.timestamp())
        )

    def remove(self, resource: ServedResource, key: str) -> None:
        """Remove an object at once, despite finalizers: the last step of the deletion of a namespace."""
        self._store.drop(resource, key)

    def _create(self, resource: ServedResource, namespace: str, body: Document) -> StoredObject:
        name = body["metadata"]["name"]
        self._check_kind(resource, body)
        admit_to_namespace(self._store, resource, namespace, name)
        self._created += 1
        uid = f"{self._created:08x}-5eed-4000-8000-{self._seed:012x}"
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        made = {**body, **head, "metadata": strategies.new_metadata(resource, body["metadata"], uid, self.timestamp())}
        if resource.status:
            made.pop("status", None)
        made = resource.default(_validated(resource, made, None))
        if resource is NAMESPACES:
            made = {**made, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        check_quota(self._store, resource, namespace, name)
        if body["metadata"].get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        if self._store.get(resource, object_key(namespace, name)) is not None:
            raise already_exists(resource.full_name, name)
        return self._store.put(resource, object_key(namespace, name), made)

    def _update(self, resource: ServedResource, found: StoredObject, body: Document, part: str) -> StoredObject:
        before = found.document
        if part and resource.validator is not None:  # this ignores metadata, also the uid
            strategies.check_version(resource, before["metadata"], body["metadata"])
            about = before["metadata"]
        else:
            new = _with_owners_of(body["metadata"], before["metadata"]) if part else body["metadata"]
            about = strategies.updated_metadata(resource, before["metadata"], new)
        after = self._status_of(resource, before, body, about) if part else self._rest_of(resource, before, body, about)
        if after == before:
            return found
        key = object_key(about.get("namespace", ""), about["name"])
        if self._deletion.completes(before, after):
            self._store.drop(resource, key)
            return StoredObject(after, found.version)
        return self._store.put(resource, key, after)

    def _status_of(self, resource: ServedResource, before: Document, body: Document, about: Document) -> Document:
        """Return the object with a new status; for built-in resources also with new metadata."""
        after = {**before, "metadata": about, **_part(body, "status")}
        if "status" not in body:
            after.pop("status", None)
        if resource is PODS:
            return strategies.with_qos_class(before, after)
        return _validated(resource, after, before, "status")

    def _rest_of(self, resource: ServedResource, before: Document, body: Document, about: Document) -> Document:
        """Return the object with everything new but the status, if that is a subresource."""
        after = {**body, "apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": about}
        if resource.status:
            after.pop("status", None)
            after |= _part(before, "status")
        after = resource.check_update(before, _validated(resource, after, before))
        if resource.has_generation and any(
            after.get(field) != before.get(field) for field in {*after, *before} - {"metadata", "status"}
        ):
            after = {**after, "metadata": {**about, "generation": about.get("generation", 0) + 1}}
        return after

    @staticmethod
    def _check_kind(resource: ServedResource, body: Document) -> None:
        sent = (body.get("apiVersion", resource.api_version), body.get("kind", resource.kind))
        if sent != (resource.api_version, resource.kind) and resource.validator is not None:
            raise invalid(resource.kind, body["metadata"]["name"], f"kind: Invalid value: must be {resource.kind}")
        if sent != (resource.api_version, resource.kind):
            raise bad_request(f"{sent[1]} in version {sent[0]} cannot be handled as a {resource.kind}")


def _with_owners_of(metadata: Document, before: Document) -> Document:
    """Return metadata with the owners as they were: a status update of a pod cannot change them."""
    rest = {key: value for key, value in metadata.items() if key != "ownerReferences"}
    return rest | _part(before, "ownerReferences")


def _part(document: Document, field: str) -> Document:
    return {field: document[field]} if field in document else {}


def _validated(resource: ServedResource, document: Document, before: Document | None, only: str = "") -> Document:
    if resource.known_fields:
        return {key: value for key, value in document.items() if key in HEAD or key in resource.known_fields}
    if resource.validator is None:
        return document
    pruned = resource.validator.prune_and_default(document, only)
    problems = resource.validator.errors(pruned, before, only)
    if problems:
        raise invalid(f"{resource.kind}.{resource.group}", pruned["metadata"]["name"], ", ".join(problems))
    return pruned


def object_key(namespace: str, name: str) -> str:
    """Return the key of an object."""
    return f"{namespace}/{name}" if namespace else name
