"""Lists as they were: what a server that lags may still say."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.server import Server

from .words import Names

#: By how many changes of what it lists a list may be old.
BACK = (1,)


class Past:
    """That of the kinds `plurals` of one server."""

    def __init__(self, server: Server, plurals: tuple[str, ...]) -> None:
        self._storage = server.storage
        self._resources = {resource.plural: resource for resource in server.table.all if resource.plural in plurals}

    def versions(self, plural: str) -> Iterator[tuple[int, int]]:
        """How many changes ago there was another list, and its version."""
        changes = self._storage.since(self._resources[plural], self._storage.compacted)
        yield from ((back, changes[-back].version - 1) for back in BACK if back <= len(changes))

    def words(self, names: Names) -> Iterator[str]:
        """What old lists would say."""
        for plural, resource in self._resources.items():
            for back, version in self.versions(plural):
                yield f"{plural} {back} changes ago"
                told = self._storage.at(resource, version)
                yield from (names.document(told[key].document) for key in sorted(told))
