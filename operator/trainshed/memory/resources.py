"""What a resource is, and which one the path of a request names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import unknown_group, unknown_path

Document = dict[str, Any]


class Validator(Protocol):
    """The schema of a custom resource; `only` names the one field that is new."""

    def prune_and_default(self, document: Document, only: str = "") -> Document:
        """Return the object without unknown fields and with defaults."""
        ...

    def errors(self, document: Document, before: Document | None = None, only: str = "") -> list[str]:
        """Return what is wrong with it."""
        ...


def _unchanged(document: Document) -> Document:
    return document


def _accept(_before: Document, after: Document) -> Document:
    return after


@dataclass(frozen=True, slots=True, eq=False)
class ServedResource:
    """A resource: its prefix `/api/v1` or `/apis/group/version`, its plural and kind, and how its objects behave."""

    prefix: str
    plural: str
    kind: str
    namespaced: bool = True
    #: It has a status subresource: a write to one of `/` and `/status` leaves the other's part unchanged.
    status: bool = False
    #: `metadata.generation` counts the changes of the spec.
    has_generation: bool = False
    #: The schema of its CRD, if it is a custom resource.
    validator: Validator | None = None
    #: PUT creates a missing object.
    create_on_put: bool = False
    #: PUT without a version is accepted.
    unversioned_put: bool = True
    #: The response to DELETE is the object.
    returned_on_delete: bool = False
    #: Names are DNS labels: 63 characters at most and no dots.
    dns_label_name: bool = False
    #: The fields besides apiVersion, kind and metadata; if given, all others are dropped.
    known_fields: frozenset[str] = frozenset()
    #: Defaults of a new object, and the check of an update; either may raise `StatusError`.
    default: Callable[[Document], Document] = _unchanged
    check_update: Callable[[Document, Document], Document] = _accept

    @property
    def api_version(self) -> str:
        """Return the `apiVersion`."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")

    @property
    def group(self) -> str:
        """Return the API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def full_name(self) -> str:
        """Return the name in messages: `pods`, `tfjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class ResourceTable:
    """Finds a resource by its path, or by apiVersion and kind."""

    def __init__(self, resources: Iterable[ServedResource]) -> None:
        self.all = tuple(resources)
        self._by_path = {(found.prefix, found.plural): found for found in self.all}
        self._by_kind = {(found.api_version, found.kind): found for found in self.all}

    def at(self, prefix: str, plural: str) -> ServedResource | None:
        """Return the resource at a path."""
        return self._by_path.get((prefix, plural))

    def named(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource of this kind."""
        return self._by_kind.get((api_version, kind))

    def within(self, prefix: str) -> tuple[ServedResource, ...]:
        """Return all resources of a group and version."""
        return tuple(found for found in self.all if found.prefix == prefix)


#: Subresources of a namespace; any other word after its name is a resource in it.
OF_NAMESPACES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestPath:
    """The parts of a path; without a name it is the collection."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    part: str = ""


class PathParser:
    """Parses the paths of requests, and caches the results."""

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self._known: dict[str, RequestPath] = {}

    def parse(self, path: str) -> RequestPath:
        """Return the parts of a path; raises `StatusError` if nothing is served there."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._find(path)
        return found

    def _find(self, path: str) -> RequestPath:
        words = path.split("/")[1:]
        depth = 2 if words[0] == "api" else 3
        prefix, rest = "/" + "/".join(words[:depth]), words[depth:]
        if rest[:1] == ["namespaces"] and rest[2:] and rest[2] not in OF_NAMESPACES:
            namespace, plural, *more = rest[1:]
        else:
            namespace, (plural, *more) = "", rest or [""]
        resource = self._table.at(prefix, plural)
        if resource is None:
            raise unknown_path() if self._table.within(prefix) else unknown_group()
        name, part, *_ = (*more, "", "")
        if part == "status" and not resource.status:
            raise unknown_path()
        return RequestPath(resource, namespace, name, part)
