"""Merge patches (RFC 7386) whose responses were lost."""

from __future__ import annotations

from trainshed.api.job import Document


def carried_out(patch: Document, found: Document) -> bool:
    """Return whether the patch was applied although its response was lost.

    The job that was read has then changed, and contains the values of the patch.
    """
    metadata, wanted = found["metadata"], patch["metadata"]
    changed = metadata["resourceVersion"] != wanted["resourceVersion"]
    return changed and metadata["uid"] == wanted["uid"] and _has(found.get("status") or {}, patch["status"])


def _has(found: Document, patch: Document) -> bool:
    return all(
        _has(found.get(key) or {}, value) if isinstance(value, dict) else found.get(key) == value
        for key, value in patch.items()
    )
