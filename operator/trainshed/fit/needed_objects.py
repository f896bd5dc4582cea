"""The objects that pods name and that must exist: ConfigMaps, Secrets, claims, ServiceAccounts and classes."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document

from .assessment import Assessment, Fit
from .demands import containers

PART = "Objects"
CONFIG_MAP, SECRET, CLAIM, ACCOUNT = "ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount"
PRIORITY, RUNTIME = CLASSES = "PriorityClass", "RuntimeClass"
#: Classes that every cluster has.
BUILT_IN = frozenset(("system-cluster-critical", "system-node-critical"))
#: The kind and name of an object.
Reference = tuple[str, str]
#: The volumes whose driver reads a Secret of the namespace, and the field with its name.
DRIVERS = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("flexVolume", "secretRef"),
    ("iscsi", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
)


def references(spec: Document) -> dict[Reference, None]:
    """Return the objects that a pod names, in order; those that it marks as optional are left out."""
    found: dict[Reference, None] = {}
    for kind, name in (*_own(spec), *_volumes(spec), *_variables(spec)):
        if name:
            found[kind, name] = None
    return found


def _own(spec: Document) -> Iterator[Reference]:
    yield ACCOUNT, parse_text(spec.get("serviceAccountName") or spec.get("serviceAccount"))
    yield RUNTIME, parse_text(spec.get("runtimeClassName"))
    priority = parse_text(spec.get("priorityClassName"))
    yield PRIORITY, "" if priority in BUILT_IN else priority
    for secret in as_sequence(spec.get("imagePullSecrets")):
        yield SECRET, parse_text(as_mapping(secret).get("name"))


def _volumes(spec: Document) -> Iterator[Reference]:
    for volume in map(as_mapping, as_sequence(spec.get("volumes"))):
        yield CLAIM, parse_text(as_mapping(volume.get("persistentVolumeClaim")).get("claimName"))
        yield from _source(volume, "secretName")
        for source in as_sequence(as_mapping(volume.get("projected")).get("sources")):
            yield from _source(as_mapping(source), "name")
        for driver, field in DRIVERS:
            named = as_mapping(volume.get(driver)).get(field)
            yield SECRET, parse_text(named) or parse_text(as_mapping(named).get("name"))


def _source(source: Document, secret_name: str) -> Iterator[Reference]:
    yield _unless_optional(CONFIG_MAP, source.get("configMap"), "name")
    yield _unless_optional(SECRET, source.get("secret"), secret_name)


def _variables(spec: Document) -> Iterator[Reference]:
    for container in containers(spec):
        for source in map(as_mapping, as_sequence(container.get("envFrom"))):
            yield _unless_optional(CONFIG_MAP, source.get("configMapRef"))
            yield _unless_optional(SECRET, source.get("secretRef"))
        for entry in map(as_mapping, as_sequence(container.get("env"))):
            origin = as_mapping(entry.get("valueFrom"))
            yield _unless_optional(CONFIG_MAP, origin.get("configMapKeyRef"))
            yield _unless_optional(SECRET, origin.get("secretKeyRef"))


def _unless_optional(kind: str, named: object, field: str = "name") -> Reference:
    found = as_mapping(named)
    return kind, "" if found.get("optional") is True else parse_text(found.get(field))


def missing(reference: Reference, role: str, namespace: str) -> Assessment:
    """Return what is said about an object that the pods of a role name and that does not exist."""
    kind, name = reference
    if kind in CLASSES:
        text = f"there is no {kind} {name}, which {role} names: the API server refuses the pods"
        return Assessment(Fit.REFUSED, PART, text)
    result = "the API server refuses the pods" if kind == ACCOUNT else "its pods would wait for it"
    fit = Fit.REFUSED if kind == ACCOUNT else Fit.LACKING
    return Assessment(fit, PART, f"namespace {namespace} has no {kind} {name}, which {role} names: {result}")
