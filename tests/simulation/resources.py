"""The kinds of objects that the server serves, one table: where each lives, and what is particular about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import pods, services
from .answers import invalid
from .schema import Structure

Document = dict[str, Any]
ROOT = Path(__file__).parents[2]
CRDS, GROUPS = ROOT / "crds", ROOT / "tests" / "support" / "podgroups"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def _as_it_is(document: Document) -> Document:
    return document


def _after(_before: Document, after: Document) -> Document:
    return after


def _typed(secret: Document) -> Document:
    return {"type": "Opaque", **secret}


def _unless_immutable(before: Document, after: Document) -> Document:
    fields = ("data", "binaryData") if before.get("immutable") else ()
    if changed := [field for field in fields if before.get(field) != after.get(field)]:
        what = f"{changed[0]}: Forbidden: field is immutable when `immutable` is set"
        raise invalid(before["kind"], before["metadata"]["name"], what)
    return after


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A kind: `/api/v1` or `/apis/group/version`, its plural, and how its objects behave."""

    prefix: str
    plural: str
    kind: str
    namespaced: bool = True
    #: It has a status subresource: each of `/` and `/status` leaves the other's part alone.
    status: bool = False
    #: `metadata.generation` counts the changes of what is asked for.
    counted: bool = False
    #: The schema of its CRD, if it is one.
    structure: Structure | None = None
    #: PUT makes what is not there.
    made_by_put: bool = False
    #: PUT without a version is accepted.
    unconditional: bool = True
    #: DELETE answers with the object.
    shown_when_deleted: bool = False
    #: The longest that a name may be; a label of DNS has 63 characters and no dots.
    label: bool = False
    #: The fields that it has besides its head, as far as others are dropped.
    fields: frozenset[str] = frozenset()
    #: What a new object gets, and what may become of one; either may raise `Refusal`.
    born: Callable[[Document], Document] = _as_it_is
    changed: Callable[[Document, Document], Document] = _after

    @property
    def api_version(self) -> str:
        """As in `apiVersion`."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")

    @property
    def group(self) -> str:
        """The API group; nothing for the core's."""
        return self.api_version.rpartition("/")[0]

    @property
    def full(self) -> str:
        """As it stands in the server's sentences: `pods`, `tfjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Resource(
    "/api/v1", "pods", "Pod", status=True, counted=True, shown_when_deleted=True, born=pods.born, changed=pods.changed
)
SERVICES = Resource(
    "/api/v1",
    "services",
    "Service",
    status=True,
    made_by_put=True,
    shown_when_deleted=True,
    label=True,
    born=services.born,
    changed=services.changed,
)
NAMESPACES = Resource("/api/v1", "namespaces", "Namespace", namespaced=False, status=True, label=True)
QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota", status=True)
LEASES = Resource(
    "/apis/coordination.k8s.io/v1",
    "leases",
    "Lease",
    made_by_put=True,
    unconditional=False,
    fields=frozenset(("spec",)),
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
        fields=frozenset(("data", "binaryData", "immutable")),
        changed=_unless_immutable,
    ),
    Resource(
        "/api/v1",
        "secrets",
        "Secret",
        born=_typed,
        changed=lambda _before, after: _typed(after),
        fields=frozenset(("data", "type", "immutable")),
    ),
    Resource("/api/v1", "serviceaccounts", "ServiceAccount"),
    Resource("/api/v1", "events", "Event", made_by_put=True),
    Resource("/api/v1", "nodes", "Node", namespaced=False, status=True),
    Resource(RBAC, "roles", "Role", made_by_put=True, fields=frozenset(("rules",))),
    Resource(RBAC, "rolebindings", "RoleBinding", made_by_put=True),
    Resource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", status=True),
)


@cache
def custom(version: str = "v1") -> tuple[Resource, ...]:
    """The kinds of our CRDs, with MPIJob at this version, and the groups of the gang schedulers."""
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
        counted=True,
        structure=Structure(version["schema"]["openAPIV3Schema"]),
        unconditional=False,
    )


class Table:
    """Finds a kind by its path, or by what an ownerReference says."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.all = tuple(resources)
        self._by_path = {(found.prefix, found.plural): found for found in self.all}
        self._by_kind = {(found.api_version, found.kind): found for found in self.all}

    def at(self, prefix: str, plural: str) -> Resource | None:
        """The kind that lives there."""
        return self._by_path.get((prefix, plural))

    def named(self, api_version: str, kind: str) -> Resource | None:
        """The kind of that name."""
        return self._by_kind.get((api_version, kind))

    def within(self, prefix: str) -> tuple[Resource, ...]:
        """All kinds of a group and version."""
        return tuple(found for found in self.all if found.prefix == prefix)
