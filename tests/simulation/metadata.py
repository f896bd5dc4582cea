"""What the server itself writes into `metadata`, what it lets others write, and what it finds wrong."""

from __future__ import annotations

import re
from typing import Any

from .answers import Refusal, bad, conflict, invalid
from .resources import Resource

Document = dict[str, Any]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
#: The server's own: nobody else's word on them counts.
OWN = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields")


def born(resource: Resource, metadata: Document, uid: str, now: str) -> Document:
    """The metadata of a new object; raises `Refusal` for a name or owners that cannot be."""
    name = metadata["name"]
    check_name(resource, name)
    _check_owners(resource, name, metadata.get("ownerReferences") or ())
    kept = {
        key: value for key, value in metadata.items() if key not in (*OWN, "selfLink") and value not in (None, [], {})
    }
    if "ownerReferences" in kept:
        kept["ownerReferences"] = _once(kept["ownerReferences"])
    counted = {"generation": 1} if resource.counted else {}
    return {**kept, "uid": uid, **counted, "creationTimestamp": now}


def check_name(resource: Resource, name: str) -> None:
    """Raise `Refusal` for a name that no object of the kind may have."""
    pattern, longest = (LABEL, 63) if resource.label else (SUBDOMAIN, 253)
    if resource.group == "rbac.authorization.k8s.io":
        pattern, longest = re.compile(r"[^/%]+"), 10_000
    if len(name) > longest or not pattern.fullmatch(name):
        raise invalid(resource.kind, name, f'metadata.name: Invalid value: "{name}"')


def kept(resource: Resource, before: Document, after: Document) -> Document:
    """The metadata of a change, with what is the server's as it was; raises `Refusal` if it speaks of another object.

    Its resourceVersion and its uid, where they are given, must be those of `before`.
    """
    name = before["name"]
    check_version(resource, before, after)
    uid = after.get("uid")
    if uid and uid != before["uid"]:
        raise invalid(resource.kind, name, f'metadata.uid: Invalid value: "{uid}": field is immutable')
    if after.get("ownerReferences") != before.get("ownerReferences"):
        _check_owners(resource, name, after.get("ownerReferences") or ())
    _check_finalizers(resource, before, after)
    theirs = {key: value for key, value in after.items() if key not in OWN and value not in ([], {}, None)}
    if "ownerReferences" in theirs:
        theirs["ownerReferences"] = _once(theirs["ownerReferences"])
    ours = {key: before[key] for key in OWN if key in before}
    return {**theirs, **ours, "name": name, "resourceVersion": before["resourceVersion"]}


def check_version(resource: Resource, before: Document, after: Document) -> None:
    """Raise `Refusal` if a version is given and it is not the one that is there."""
    if after.get("resourceVersion") not in (None, "", before["resourceVersion"]):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource.full, before["name"], why)


def check_uid(resource: Resource, name: str, uid: str | None, there: str) -> None:
    """Raise `Refusal` if a PUT names another object than the one that is there; a patch has no such precondition."""
    if uid and uid != there:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}"
        raise conflict(resource.full, name, why)


def _check_finalizers(resource: Resource, before: Document, after: Document) -> None:
    if "deletionTimestamp" not in before:
        return
    new = set(after.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if new:
        why = f"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted: {new}"
        raise invalid(resource.kind, before["name"], why)


def _check_owners(resource: Resource, name: str, owners: Any) -> None:
    for owner in owners:
        if not all(owner.get(field) for field in ("apiVersion", "kind", "name", "uid")):
            raise invalid(resource.kind, name, "metadata.ownerReferences: Required value")
    if sum(bool(owner.get("controller")) for owner in _once(list(owners))) > 1:
        why = "metadata.ownerReferences: Only one reference can have Controller set to true"
        raise invalid(resource.kind, name, why)


def _once(owners: list[Document]) -> list[Document]:
    return [owner for number, owner in enumerate(owners) if owner not in owners[:number]]


def named(document: Document, namespace: str, name: str, suffix: str) -> Document:
    """A document whose name and namespace are those of the path; `suffix` is what `generateName` gets.

    Raises `Refusal` if they are others already, or there is no name.
    """
    metadata = document.get("metadata") or {}
    if namespace and metadata.get("namespace", namespace) != namespace:
        raise bad("the namespace of the provided object does not match the namespace sent on the request")
    own = metadata.get("name") or ""
    if not own and metadata.get("generateName") and not name:
        own = metadata["generateName"] + suffix
    if name and own and own != name:
        raise bad(f"the name of the object ({own}) does not match the name on the URL ({name})")
    if not own and not name:
        raise Refusal(422, "Invalid", "metadata.name: Required value: name or generateName is required")
    where = {"namespace": namespace} if namespace else {}
    return {**document, "metadata": {**metadata, "name": own or name, **where}}
