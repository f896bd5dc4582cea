"""Lists and watches: label and field selectors, pages of a list as of one version, and the event lines of a watch."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from .errors import bad_request, expired
from .resources import ServedResource
from .versioned_store import Commit, Expired, StoredObject, VersionedStore

Document = dict[str, Any]
Matcher = Callable[[Document], bool]
PART = re.compile(r"[^,(]*(?:\([^)]*\))?[^,(]*")
SET = re.compile(r"(?P<key>\S+)\s+(?P<how>in|notin)\s+\((?P<values>[^)]*)\)")
EQUAL = re.compile(r"(?P<key>[^!=\s]+)\s*(?P<how>==|=|!=)\s*(?P<value>\S*)")
#: Takes a line of a watch, with the newline.
Sink = Callable[[bytes], None]
TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)


def everything(_document: Document) -> bool:
    """Match every object."""
    return True


@lru_cache(maxsize=1000)
def matcher(labels: str, fields: str) -> Matcher:
    """Return a function that says whether a document matches both selectors; raises `StatusError`."""
    tests = [_label(part.strip()) for part in PART.findall(labels) if part.strip()]
    tests += [_field(part.strip()) for part in fields.split(",") if part.strip()]
    if not tests:
        return everything
    return tests[0] if len(tests) == 1 else lambda document: all(test(document) for test in tests)


def _label(text: str) -> Matcher:
    found = SET.fullmatch(text)
    if found:
        key, how = found["key"], found["how"]
        values = frozenset(value.strip() for value in found["values"].split(","))
        return lambda document: (_labels(document).get(key) in values) is (how == "in")
    found = EQUAL.fullmatch(text)
    if found:
        key, value, equal = found["key"], found["value"], found["how"] != "!="
        return lambda document: (_labels(document).get(key) == value) is equal
    key, there = text.lstrip("!").strip(), not text.startswith("!")
    if not re.fullmatch(r"[\w./-]+", key):
        raise bad_request(f"unable to parse requirement: {text}")
    return lambda document: (key in _labels(document)) is there


def _labels(document: Document) -> Document:
    return document["metadata"].get("labels") or {}


def _field(text: str) -> Matcher:
    found = EQUAL.fullmatch(text)
    if not found:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path, value, equal = found["key"].split("."), found["value"], found["how"] != "!="

    def test(document: Document) -> bool:
        here: Any = document
        for step in path:
            here = here.get(step, "") if isinstance(here, dict) else ""
        return (str(here or "") == value) is equal

    return test


class Watch:
    """One watch: `sink` gets a line with each commit that matches."""

    def __init__(self, resource: ServedResource, namespace: str, matches: Matcher, sink: Sink) -> None:
        self.resource = resource
        self.closed = False
        self._prefix = f"{namespace}/" if namespace else ""
        self._matches = matches
        self._sink = sink

    def send(self, commit: Commit) -> None:
        """Send the event of a commit, if it matches."""
        if self._prefix and not commit.key.startswith(self._prefix):
            return
        before = commit.before is not None and self._matches(commit.before.document)
        after = not commit.deleted and self._matches(commit.after.document)
        if after:
            self._sink(event_line("MODIFIED" if before else "ADDED", commit.after.raw))
        elif before:
            self._sink(event_line("DELETED", _deleted_object(commit).raw))

    def send_existing(self, table: Mapping[str, StoredObject]) -> None:
        """Send the existing objects that match as ADDED."""
        for _, stored in select(table, self._prefix, self._matches):
            self._sink(event_line("ADDED", stored.raw))

    def bookmark(self, version: int) -> None:
        """Send a bookmark with this version."""
        metadata = {"resourceVersion": str(version), "creationTimestamp": None}
        body = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": metadata}
        self._sink(event_line("BOOKMARK", orjson.dumps(body)))


class Watches:
    """All open watches."""

    def __init__(self, store: VersionedStore) -> None:
        self._store = store
        self._open: dict[ServedResource, dict[Watch, None]] = {}
        store.listeners.append(self._notify)

    def open(self, watch: Watch, since: int | None) -> None:
        """Send the commits since a version, or all objects for None, then every new commit. Raises `Expired`."""
        if since is None:
            watch.send_existing(self._store.table(watch.resource))
        else:
            for commit in self._store.since(watch.resource, since):
                watch.send(commit)
        self._open.setdefault(watch.resource, {})[watch] = None

    def close(self, watch: Watch) -> None:
        """Send no more events."""
        self._open.get(watch.resource, {}).pop(watch, None)

    def _notify(self, commit: Commit) -> None:
        for watch in tuple(self._open.get(commit.resource, ())):
            watch.send(commit)


def select(table: Mapping[str, StoredObject], prefix: str, matches: Matcher) -> list[tuple[str, StoredObject]]:
    """Return the objects of a table in a namespace that match, in the order of their keys."""
    keys = sorted(key for key in table if key.startswith(prefix)) if prefix else sorted(table)
    found = [(key, table[key]) for key in keys]
    return found if matches is everything else [(key, stored) for key, stored in found if matches(stored.document)]


def event_line(kind: str, raw: bytes) -> bytes:
    """Return a line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


def _deleted_object(commit: Commit) -> StoredObject:
    """Return the object of a DELETED event: its last state at the version of the commit."""
    if commit.deleted or commit.before is None:
        return commit.after
    document = commit.before.document
    metadata = {**document["metadata"], "resourceVersion": str(commit.version)}
    return StoredObject({**document, "metadata": metadata}, commit.version)


def list_objects(
    store: VersionedStore, resource: ServedResource, namespace: str, query: Mapping[str, str], behind: int | None = None
) -> bytes:
    """Return the response to a list; a stale server answers as of the version `behind`. Raises `StatusError`."""
    matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    limit = int(query.get("limit") or 0)
    version, start = _position(store, query, behind)
    try:
        table = store.at(resource, version)
    except Expired:
        if "continue" in query:
            raise expired(TOO_OLD, _token(-1, start)) from None
        raise expired(f"too old resource version: {version} ({store.version})") from None
    prefix = f"{namespace}/" if namespace else ""
    found = select(table, prefix, matches)
    found = [(key, stored) for key, stored in found if key >= start] if start else found
    page = found[:limit] if limit else found
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    # The list continues where keys are left, whether or not they match the selector;
    # a field selector for one name reads one key only.
    rest = (key for key, _ in found) if "metadata.name=" in query.get("fieldSelector", "") else table
    if limit and len(page) == limit and any(key > page[-1][0] and key.startswith(prefix) for key in rest):
        metadata["continue"] = _token(version, page[-1][0] + "\0")
        if matches is everything:
            metadata["remainingItemCount"] = len(found) - len(page)
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
    items = b",".join(stored.raw for _, stored in page)
    return orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}"


def _position(store: VersionedStore, query: Mapping[str, str], behind: int | None) -> tuple[int, str]:
    """Return the version of a list and its first key."""
    current = store.version if behind is None else behind
    if "continue" not in query:
        if query.get("resourceVersionMatch") == "Exact":
            return int(query["resourceVersion"]), ""
        return current, ""
    if query.get("resourceVersion", "") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        token = orjson.loads(base64.urlsafe_b64decode(query["continue"]))
        version, start = int(token["rv"]), str(token["start"])
    except (ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid: illegal base64 data") from None
    return (current if version < 0 else version), start


def _token(version: int, start: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})).decode()
