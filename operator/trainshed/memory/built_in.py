"""The resources that the server serves, and how each behaves."""

from __future__ import annotations

import base64
from typing import Any

from trainshed.api.framework import Framework

from . import strategies
from .errors import invalid
from .resources import ServedResource

Document = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def _default_secret(secret: Document) -> Document:
    """Return a Secret with its type, and with its `stringData` among the data."""
    texts = secret.get("stringData") or {}
    found = {"type": "Opaque", **{key: value for key, value in secret.items() if key != "stringData"}}
    if not texts:
        return found
    coded = {key: base64.b64encode(str(value or "").encode()).decode() for key, value in texts.items()}
    return {**found, "data": (secret.get("data") or {}) | coded}


def _check_immutable(before: Document, after: Document) -> Document:
    fields = ("data", "binaryData") if before.get("immutable") else ()
    if different := [field for field in fields if before.get(field) != after.get(field)]:
        what = f"{different[0]}: Forbidden: field is immutable when `immutable` is set"
        raise invalid(before["kind"], before["metadata"]["name"], what)
    return after


PODS = ServedResource(
    "/api/v1",
    "pods",
    "Pod",
    status=True,
    has_generation=True,
    returned_on_delete=True,
    default=strategies.default_pod,
    check_update=strategies.check_pod_update,
)
SERVICES = ServedResource(
    "/api/v1",
    "services",
    "Service",
    status=True,
    create_on_put=True,
    returned_on_delete=True,
    dns_label_name=True,
    default=strategies.default_service,
    check_update=strategies.check_service_update,
)
NAMESPACES = ServedResource("/api/v1", "namespaces", "Namespace", namespaced=False, status=True, dns_label_name=True)
QUOTAS = ServedResource("/api/v1", "resourcequotas", "ResourceQuota", status=True)
LEASES = ServedResource(
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
    ServedResource(
        "/api/v1",
        "configmaps",
        "ConfigMap",
        known_fields=frozenset(("data", "binaryData", "immutable")),
        check_update=_check_immutable,
    ),
    ServedResource(
        "/api/v1",
        "secrets",
        "Secret",
        default=_default_secret,
        check_update=lambda _before, after: _default_secret(after),
        known_fields=frozenset(("data", "stringData", "type", "immutable")),
    ),
    ServedResource("/api/v1", "serviceaccounts", "ServiceAccount"),
    ServedResource("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True),
    ServedResource("/api/v1", "events", "Event", create_on_put=True),
    ServedResource("/api/v1", "nodes", "Node", namespaced=False, status=True),
    ServedResource(RBAC, "roles", "Role", create_on_put=True, known_fields=frozenset(("rules",))),
    ServedResource(RBAC, "rolebindings", "RoleBinding", create_on_put=True),
    ServedResource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", status=True),
)


def job_resource(framework: Framework) -> ServedResource:
    """Return the resource of a kind of job, without the schema of its CRD: the jobs have been checked before."""
    return ServedResource(
        prefix=framework.prefix,
        plural=framework.plural,
        kind=framework.kind,
        status=True,
        has_generation=True,
        unversioned_put=False,
    )
