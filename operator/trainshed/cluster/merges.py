"""Merge patches (RFC 7386) whose answers were lost: whether they were carried out."""

from __future__ import annotations

from trainshed.api.job import Document


def carried_out(patch: Document, found: Document) -> bool:
    """Whether the job that was found has been changed since, and has what the patch says: its answer was lost."""
    metadata, wanted = found["metadata"], patch["metadata"]
    moved = metadata["resourceVersion"] != wanted["resourceVersion"]
    return moved and metadata["uid"] == wanted["uid"] and _has(found.get("status") or {}, patch["status"])


def _has(found: Document, patch: Document) -> bool:
    return all(
        _has(found.get(key) or {}, value) if isinstance(value, dict) else found.get(key) == value
        for key, value in patch.items()
    )
