"""Merge patches (RFC 7386): between two documents, for finalizers, and whether one is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .actions import ReleasePod
from .job import Document


def difference(before: Document, after: Document) -> dict[str, Any]:
    """Return the merge patch that makes the one document into the other."""
    gone = {key: None for key in before if key not in after}
    changed = {
        key: difference(before[key], value) if isinstance(value, dict) and isinstance(before.get(key), dict) else value
        for key, value in after.items()
        if before.get(key) != value
    }
    return gone | changed


def has_values(found: Mapping[str, Any], patch: Document) -> bool:
    """Return whether an object has the values of a merge patch, and not the fields that it removes."""
    return all(
        has_values(found.get(key) or {}, value) if isinstance(value, dict) else found.get(key) == value
        for key, value in patch.items()
    )


def finalizer_patch(action: ReleasePod) -> dict[str, Any]:
    """Return the merge patch that removes Trainshed's finalizer; uid and resourceVersion are preconditions.

    Without a version only the uid is one.
    """
    known = {"uid": action.uid} | ({"resourceVersion": action.version} if action.version else {})
    return {"metadata": {**known, "finalizers": list(action.finalizers) or None}}


def without_version(patch: Document) -> dict[str, Any]:
    """Return a merge patch without the precondition on the resourceVersion; that on the uid stays."""
    metadata = {key: value for key, value in patch["metadata"].items() if key != "resourceVersion"}
    return {**patch, "metadata": metadata}
