"""What a path leads to: the objects of a kind, one of them, or a part of one."""

from __future__ import annotations

from dataclasses import dataclass

from .answers import unknown_group, unknown_path
from .resources import Resource, Table

#: What can be asked of a namespace itself; anything else after its name is what is in it.
OF_NAMESPACES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path leads to; without a name it is the collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""


class Map:
    """Knows the way through the kinds of a table, and remembers the ways that were gone."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[str, Target] = {}

    def target(self, path: str) -> Target:
        """What a path leads to; raises `Refusal` if it leads nowhere."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._find(path)
        return found

    def _find(self, path: str) -> Target:
        words = path.split("/")[1:]
        depth = 2 if words[0] == "api" else 3
        prefix, rest = "/" + "/".join(words[:depth]), words[depth:]
        if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in OF_NAMESPACES:
            namespace, plural, *more = rest[1:]
        else:
            namespace, (plural, *more) = "", rest or [""]
        resource = self._table.at(prefix, plural)
        if resource is None:
            raise unknown_path() if self._table.within(prefix) else unknown_group()
        name, part, *_ = (*more, "", "")
        if part == "status" and not resource.status:
            raise unknown_path()
        return Target(resource, namespace, name, part)
