"""JSON merge patch, RFC 7386, on documents that nobody may change: what is the same is shared."""

from __future__ import annotations

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """The target with the patch in it; the target itself if nothing is different."""
    if not isinstance(patch, dict):
        return target if type(target) is type(patch) and target == patch else patch
    before = target if isinstance(target, dict) else {}
    after = before
    for key, value in patch.items():
        if value is None:
            if key in after:
                after = {name: part for name, part in after.items() if name != key}
            continue
        part = merged(before.get(key), value)
        if key not in before or part is not before[key]:
            after = {**after, key: part}
    return after if isinstance(target, dict) else dict(after)
