"""Makes responses comparable: values that differ between servers, such as uids, are replaced by names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

Document = dict[str, Any]
TIMES = frozenset(("creationTimestamp", "deletionTimestamp", "lastTransitionTime"))
#: The ConfigMap in each real namespace.
CERTIFICATE = "kube-root-ca.crt"
#: Fields that only the real server sets.
LEFT_OUT = frozenset(("managedFields", "selfLink"))


@dataclass(frozen=True, slots=True)
class Version:
    """A resourceVersion of an object, to be ranked among others."""

    of: str
    number: int


class Mask:
    """The names of the uids of one server."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}

    def document(self, found: Any, of: str = "") -> Any:
        """Return a document without values that differ."""
        if isinstance(found, dict):
            metadata = found.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            of = f"{found.get('kind', of)}/{name}" if name else of
            return {key: self._field(key, value, of) for key, value in sorted(found.items()) if key not in LEFT_OUT}
        if isinstance(found, list):
            return [self.document(item, of) for item in found]
        return found

    def _field(self, key: str, value: Any, of: str) -> Any:
        if key in TIMES:
            return value and "a time"
        if key == "uid":
            return self._uids.setdefault(value, f"uid {len(self._uids)}")
        if key == "resourceVersion":
            return Version(of, int(value)) if of and value else value
        return self.document(value, of)

    def listed(self, found: Document) -> Document:
        """Return a list with the comparable part of its metadata."""
        metadata = found["metadata"]
        kind = found["kind"].removesuffix("List")
        items = [item for item in found["items"] if item["metadata"]["name"] != CERTIFICATE]
        items = [self.document({"kind": kind, "apiVersion": found["apiVersion"], **item}) for item in items]
        rest = {"more": bool(metadata.get("continue")), "left": metadata.get("remainingItemCount")}
        return {"kind": found["kind"], "items": items, **rest}

    def answer(self, status: int, content: bytes) -> Document:
        """Return a response; of an error its code and its reason."""
        try:
            found = orjson.loads(content)
        except ValueError:
            return {"code": status, "text": content[:100].decode(errors="replace")}
        if status >= 400:
            return {"code": status, "reason": found.get("reason", "")}
        if found.get("kind", "").endswith("List"):
            return {"code": status, **self.listed(found)}
        return {"code": status, "object": self.document(found)}


def ranked(trace: Any, *, apart: bool) -> Any:
    """Return a trace with ranks instead of versions: among all, or with `apart` among those of each object."""
    numbers: dict[str, set[int]] = {}
    _collect(trace, numbers, apart)
    ranks = {of: {number: rank for rank, number in enumerate(sorted(found))} for of, found in numbers.items()}
    return _replaced(trace, ranks, apart)


def _collect(found: Any, numbers: dict[str, set[int]], apart: bool) -> None:
    if isinstance(found, Version):
        numbers.setdefault(found.of if apart else "", set()).add(found.number)
    elif isinstance(found, dict):
        for value in found.values():
            _collect(value, numbers, apart)
    elif isinstance(found, list):
        for value in found:
            _collect(value, numbers, apart)


def _replaced(found: Any, ranks: dict[str, dict[int, int]], apart: bool) -> Any:
    if isinstance(found, Version):
        return f"version {ranks[found.of if apart else ''][found.number]}"
    if isinstance(found, dict):
        return {key: _replaced(value, ranks, apart) for key, value in found.items()}
    if isinstance(found, list):
        return [_replaced(value, ranks, apart) for value in found]
    return found
