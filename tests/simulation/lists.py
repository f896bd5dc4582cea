"""Lists: all objects of a kind as of one version, in pages, whose tokens go bad when the version is forgotten."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from .answers import bad, expired
from .resources import Resource
from .selectors import everything, matcher
from .storage import Expired, Storage
from .watches import visible

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)


def listed(
    storage: Storage, resource: Resource, namespace: str, query: Mapping[str, str], behind: int | None = None
) -> bytes:
    """The answer to a list; `behind` is the version that a server knows which lags behind. Raises `Refusal`."""
    matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    limit = int(query.get("limit") or 0)
    version, start = _position(storage, query, behind)
    try:
        table = storage.at(resource, version)
    except Expired:
        if "continue" in query:
            raise expired(TOO_OLD, _token(-1, start)) from None
        raise expired(f"too old resource version: {version} ({storage.version})") from None
    prefix = f"{namespace}/" if namespace else ""
    found = visible(table, prefix, matches)
    found = [(key, stored) for key, stored in found if key >= start] if start else found
    page = found[:limit] if limit else found
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    # There is more where there are keys that were not looked at, whether or not the selector will like them;
    # to look for one name is to look at one key.
    rest = (key for key, _ in found) if "metadata.name=" in query.get("fieldSelector", "") else table
    if limit and len(page) == limit and any(key > page[-1][0] and key.startswith(prefix) for key in rest):
        metadata["continue"] = _token(version, page[-1][0] + "\0")
        if matches is everything:
            metadata["remainingItemCount"] = len(found) - len(page)
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
    items = b",".join(stored.raw for _, stored in page)
    return orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}"


def _position(storage: Storage, query: Mapping[str, str], behind: int | None) -> tuple[int, str]:
    """As of which version, and from which key on."""
    current = storage.version if behind is None else behind
    if "continue" not in query:
        if query.get("resourceVersionMatch") == "Exact":
            return int(query["resourceVersion"]), ""
        return current, ""
    if query.get("resourceVersion", "") not in ("", "0"):
        raise bad("specifying resource version is not allowed when using continue")
    try:
        token = orjson.loads(base64.urlsafe_b64decode(query["continue"]))
        version, start = int(token["rv"]), str(token["start"])
    except (ValueError, KeyError, TypeError):
        raise bad("continue key is not valid: illegal base64 data") from None
    return (current if version < 0 else version), start


def _token(version: int, start: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})).decode()
