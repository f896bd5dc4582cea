"""The resources that the simulated server serves, how each behaves, and the paths of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import validation
from .api_errors import invalid, unknown_group, unknown_path
from .schema_validation import SchemaValidator

Document = dict[str, Any]
ROOT = Path(__file__).parents[2]
CRDS, GROUPS = ROOT / "crds", ROOT / "tests" / "support" / "podgroups"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def _unchanged(document: Document) -> Document:
    return document


def _accept(_before: Document, after: Document) -> Document:
    return after


def _default_secret(secret: Document) -> Document:
    return {"type": "Opaque", **secret}


def _check_immutable(before: Document, after: Document) -> Document:
    fields = ("data", "binaryData") if before.get("immutable") else ()
    if different := [field for field in fields if before.get(field) != after.get(field)]:
        what = f"{different[0]}: Forbidden: field is immutable when `immutable` is set"
        raise invalid(before["kind"], before["metadata"]["name"], what)
    return after


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
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
    validator: SchemaValidator | None = None
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
    #: Defaults of a new object, and the check of an update; either may raise `ApiError`.
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


PODS = Resource(
    "/api/v1",
    "pods",
    "Pod",
    status=True,
    has_generation=True,
    returned_on_delete=True,
    default=validation.default_pod,
    check_update=validation.check_pod_update,
)
SERVICES = Resource(
    "/api/v1",
    "services",
    "Service",
    status=True,
    create_on_put=True,
    returned_on_delete=True,
    dns_label_name=True,
    default=validation.default_service,
    check_update=validation.check_service_update,
)
NAMESPACES = Resource("/api/v1", "namespaces", "Namespace", namespaced=False, status=True, dns_label_name=True)
QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota", status=True)
LEASES = Resource(
    "/apis/coordination.k8s.io/v1",
    "leases",
    "Lease",
    create_on_put=True,
    unversioned_put=False,
    known_fields=frozenset(("spec",)),
)
BUILT_IN = (
    PODS,
    SERVICES,
    NAMESPACES,
    QUOTAS,
    LEASES,
    Resource(
        "/api/v1",
        "configmaps",
        "ConfigMap",
        known_fields=frozenset(("data", "binaryData", "immutable")),
        check_update=_check_immutable,
    ),
    Resource(
        "/api/v1",
        "secrets",
        "Secret",
        default=_default_secret,
        check_update=lambda _before, after: _default_secret(after),
        known_fields=frozenset(("data", "type", "immutable")),
    ),
    Resource("/api/v1", "serviceaccounts", "ServiceAccount"),
    Resource("/api/v1", "events", "Event", create_on_put=True),
    Resource("/api/v1", "nodes", "Node", namespaced=False, status=True),
    Resource(RBAC, "roles", "Role", create_on_put=True, known_fields=frozenset(("rules",))),
    Resource(RBAC, "rolebindings", "RoleBinding", create_on_put=True),
    Resource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", status=True),
)


@cache
def custom_resources(version: str = "v1") -> tuple[Resource, ...]:
    """Return the resources of the project's CRDs, with MPIJob at this version, and the PodGroups of gang schedulers."""
    files = [path for path in sorted(CRDS.glob("*.yaml")) if version == "v1" or "mpijobs" not in path.name]
    if version != "v1":
        files += sorted((CRDS / version).glob("*.yaml"))
    return tuple(_from_crd(path) for path in (*files, *sorted(GROUPS.glob("*.yaml"))))


def _from_crd(path: Path) -> Resource:
    spec = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
    version = next(found for found in spec["versions"] if found["storage"])
    return Resource(
        prefix=f"/apis/{spec['group']}/{version['name']}",
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        status="status" in version.get("subresources", {}),
        has_generation=True,
        validator=SchemaValidator(version["schema"]["openAPIV3Schema"]),
        unversioned_put=False,
    )


class ResourceTable:
    """Finds a resource by its path, or by apiVersion and kind."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.all = tuple(resources)
        self._by_path = {(found.prefix, found.plural): found for found in self.all}
        self._by_kind = {(found.api_version, found.kind): found for found in self.all}

    def at(self, prefix: str, plural: str) -> Resource | None:
        """Return the resource at a path."""
        return self._by_path.get((prefix, plural))

    def named(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of this kind."""
        return self._by_kind.get((api_version, kind))

    def within(self, prefix: str) -> tuple[Resource, ...]:
        """Return all resources of a group and version."""
        return tuple(found for found in self.all if found.prefix == prefix)


#: Subresources of a namespace; any other word after its name is a resource in it.
OF_NAMESPACES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestPath:
    """The parts of a path; without a name it is the collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""


class PathParser:
    """Parses the paths of requests, and caches the results."""

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self._known: dict[str, RequestPath] = {}

    def parse(self, path: str) -> RequestPath:
        """Return the parts of a path; raises `ApiError` if nothing is served there."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._find(path)
        return found

    def _find(self, path: str) -> RequestPath:
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
        return RequestPath(resource, namespace, name, part)
