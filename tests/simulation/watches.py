"""Watches: what has happened to the objects that a selector lets through, line by line, since a version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from .resources import Resource
from .selectors import Matcher, everything
from .storage import Commit, Expired, Storage, Stored

Document = dict[str, Any]
#: Takes a line of a watch, with its end.
Sink = Callable[[bytes], None]


class Watch:
    """One watch: `sink` is given each line when the change is committed."""

    def __init__(self, resource: Resource, namespace: str, matches: Matcher, sink: Sink) -> None:
        self.resource = resource
        self.over = False
        self._prefix = f"{namespace}/" if namespace else ""
        self._matches = matches
        self._sink = sink

    def tell(self, commit: Commit) -> None:
        """Pass on a change, if it is seen from here."""
        if self._prefix and not commit.key.startswith(self._prefix):
            return
        before = commit.before is not None and self._matches(commit.before.document)
        after = not commit.deleted and self._matches(commit.after.document)
        if after:
            self._sink(line("MODIFIED" if before else "ADDED", commit.after.raw))
        elif before:
            self._sink(line("DELETED", _last_words(commit).raw))

    def begin(self, found: list[Stored]) -> None:
        """Tell of what there is, as if it had come just now."""
        for stored in found:
            self._sink(line("ADDED", stored.raw))

    def bookmark(self, version: int) -> None:
        """Say how far everything has been told."""
        metadata = {"resourceVersion": str(version), "creationTimestamp": None}
        body = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": metadata}
        self._sink(line("BOOKMARK", orjson.dumps(body)))


class Watches:
    """All watches that are open."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._open: dict[Resource, dict[Watch, None]] = {}
        storage.told.append(self._tell)

    def open(self, watch: Watch, since: int | None) -> None:
        """Tell a watch what was since a version, and from now on; None means all there is. Raises `Expired`."""
        if since is None:
            watch.begin(
                [found for _, found in visible(self._storage.table(watch.resource), watch._prefix, watch._matches)]
            )
        else:
            for commit in self._storage.since(watch.resource, since):
                watch.tell(commit)
        self._open.setdefault(watch.resource, {})[watch] = None

    def close(self, watch: Watch) -> None:
        """Tell it nothing more."""
        self._open.get(watch.resource, {}).pop(watch, None)

    def _tell(self, commit: Commit) -> None:
        for watch in tuple(self._open.get(commit.resource, ())):
            watch.tell(commit)


def visible(table: Any, prefix: str, matches: Matcher) -> list[tuple[str, Stored]]:
    """What of a table a namespace and a selector let through, in the order of the keys."""
    keys = sorted(key for key in table if key.startswith(prefix)) if prefix else sorted(table)
    found = [(key, table[key]) for key in keys]
    return found if matches is everything else [(key, stored) for key, stored in found if matches(stored.document)]


def line(kind: str, raw: bytes) -> bytes:
    """A line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


def _last_words(commit: Commit) -> Stored:
    """What is told of an object that is gone, or that the selector lets through no more."""
    if commit.deleted or commit.before is None:
        return commit.after
    document = commit.before.document
    metadata = {**document["metadata"], "resourceVersion": str(commit.version)}
    return Stored({**document, "metadata": metadata}, commit.version)


__all__ = ["Expired", "Watch", "Watches", "line", "visible"]
