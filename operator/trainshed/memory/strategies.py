"""Defaults and validation of metadata, pods and Services, as the real API server has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from trainshed.api.coerce import LARGEST

from .errors import StatusError, bad_request, changed, conflict, invalid
from .resources import ServedResource

Document = dict[str, Any]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
#: Fields that only the server sets.
SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)


def new_metadata(resource: ServedResource, metadata: Document, uid: str, now: str) -> Document:
    """Return the metadata of a new object; raises `StatusError` for an invalid name or owner."""
    name = metadata["name"]
    check_name(resource, name)
    _check_owners(resource, name, metadata.get("ownerReferences") or ())
    kept = {
        key: value
        for key, value in metadata.items()
        if key not in (*SERVER_FIELDS, "selfLink") and value not in (None, [], {})
    }
    if "ownerReferences" in kept:
        kept["ownerReferences"] = _distinct(kept["ownerReferences"])
    generation = {"generation": 1} if resource.has_generation else {}
    return {**kept, "uid": uid, **generation, "creationTimestamp": now}


def check_name(resource: ServedResource, name: str) -> None:
    """Raise `StatusError` for a name that is invalid for the resource."""
    pattern, longest = (LABEL, 63) if resource.dns_label_name else (SUBDOMAIN, 253)
    if resource.group == "rbac.authorization.k8s.io":
        pattern, longest = re.compile(r"[^/%]+"), 10_000
    if len(name) > longest or not pattern.fullmatch(name):
        raise invalid(resource.kind, name, f'metadata.name: Invalid value: "{name}"')


def updated_metadata(resource: ServedResource, before: Document, after: Document) -> Document:
    """Return the metadata of an update, with the server's fields as they were; raises `StatusError`.

    Its resourceVersion and its uid, where they are given, must be those of `before`.
    """
    name = before["name"]
    check_version(resource, before, after)
    uid = after.get("uid")
    if uid and uid != before["uid"]:
        raise invalid(resource.kind, name, f'metadata.uid: Invalid value: "{uid}": field is immutable')
    if after.get("ownerReferences") != before.get("ownerReferences"):
        _check_owners(resource, name, after.get("ownerReferences") or ())
    _check_finalizers(resource, before, after)
    changed = {key: value for key, value in after.items() if key not in SERVER_FIELDS and value not in ([], {}, None)}
    if "ownerReferences" in changed:
        changed["ownerReferences"] = _distinct(changed["ownerReferences"])
    unchanged = {key: before[key] for key in SERVER_FIELDS if key in before}
    return {**changed, **unchanged, "name": name, "resourceVersion": before["resourceVersion"]}


def check_version(resource: ServedResource, before: Document, after: Document) -> None:
    """Raise `StatusError` if a version is given and is not the stored one."""
    if after.get("resourceVersion") not in (None, "", before["resourceVersion"]):
        raise changed(resource.full_name, before["name"])


def check_uid(resource: ServedResource, name: str, uid: str | None, there: str) -> None:
    """Raise `StatusError` if a PUT has the uid of another object; a patch has no such precondition."""
    if uid and uid != there:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}"
        raise conflict(resource.full_name, name, why)


def _check_finalizers(resource: ServedResource, before: Document, after: Document) -> None:
    if "deletionTimestamp" not in before:
        return
    new = set(after.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if new:
        why = f"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted: {new}"
        raise invalid(resource.kind, before["name"], why)


def _check_owners(resource: ServedResource, name: str, owners: Iterable[Document]) -> None:
    for owner in owners:
        if not all(owner.get(field) for field in ("apiVersion", "kind", "name", "uid")):
            raise invalid(resource.kind, name, "metadata.ownerReferences: Required value")
    if sum(bool(owner.get("controller")) for owner in _distinct(list(owners))) > 1:
        why = "metadata.ownerReferences: Only one reference can have Controller set to true"
        raise invalid(resource.kind, name, why)


def _distinct(owners: list[Document]) -> list[Document]:
    return [owner for number, owner in enumerate(owners) if owner not in owners[:number]]


def with_name(document: Document, namespace: str, name: str, suffix: str) -> Document:
    """Return the document with the name and namespace of the path; `suffix` is appended to `generateName`.

    Raises `StatusError` if they are others already, or there is no name.
    """
    metadata = document.get("metadata") or {}
    if namespace and metadata.get("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    own = metadata.get("name") or ""
    if not own and metadata.get("generateName") and not name:
        own = metadata["generateName"] + suffix
    if name and own and own != name:
        raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
    if not own and not name:
        raise StatusError(422, "Invalid", "metadata.name: Required value: name or generateName is required")
    where = {"namespace": namespace} if namespace else {}
    return {**document, "metadata": {**metadata, "name": own or name, **where}}


#: The grace period of a pod that does not set one, in seconds.
DEFAULT_GRACE = 30
POD_DEFAULTS = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
]
CONTAINER_DEFAULTS = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
FINISHED = ("Succeeded", "Failed")


def default_pod(pod: Document) -> Document:
    """Return a new pod with defaults; raises `StatusError` if it is invalid."""
    spec = pod.get("spec") or {}
    name = pod["metadata"]["name"]
    if not spec.get("containers"):
        raise invalid("Pod", name, "spec.containers: Required value")
    for container in spec["containers"]:
        for field in ("name", "image"):
            if not container.get(field):
                raise invalid("Pod", name, f"spec.containers[0].{field}: Required value")
    spec = {**POD_DEFAULTS, "tolerations": TOLERATIONS, **spec}
    for group in ("containers", "initContainers"):
        if group in spec:
            spec[group] = [_default_container(container) for container in spec[group]]
    status = {"phase": "Pending", "qosClass": _qos_class(spec["containers"])}
    return {**pod, "spec": spec, "status": status}


def check_pod_update(before: Document, after: Document) -> Document:
    """Return an updated pod; raises `StatusError` for a change of an immutable field."""
    old, new = before["spec"], after.get("spec") or {}
    deadline, sooner = (spec.get("activeDeadlineSeconds") for spec in (old, new))
    if deadline is not None and (sooner is None or sooner > deadline):
        what = f"spec.activeDeadlineSeconds: Invalid value: {sooner}: must be less than or equal to previous value"
        raise invalid("Pod", after["metadata"]["name"], what)
    if old is not new and old != new and _immutable_fields(old) != _immutable_fields(new):
        what = "pod updates may not change fields other than `spec.containers[*].image`"
        raise invalid("Pod", after["metadata"]["name"], f"spec: Forbidden: {what}")
    return after


def with_qos_class(before: Document, after: Document) -> Document:
    """Return a pod with a new status, which keeps the QoS class if it does not set it."""
    if "qosClass" in after.get("status", {}):
        return after
    return {**after, "status": {"qosClass": before["status"]["qosClass"], **after.get("status", {})}}


def grace_period(pod: Document, asked: int | None) -> int:
    """Return the grace period of a deletion in seconds."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in FINISHED:
        return 0
    return bounded_grace(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE) if asked is None else asked)


def bounded_grace(seconds: int) -> int:
    """Return a grace period as it is kept: a negative one is a second, and none lasts longer than some decades."""
    return 1 if seconds < 0 else min(seconds, LARGEST)


def bind_pod(pod: Document, node: str, now: str) -> Document:
    """Return a pod that is bound to a node."""
    status = pod.get("status", {})
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = [*(c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"), scheduled]
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {**status, "conditions": conditions}}


def _default_container(container: Document) -> Document:
    image = container.get("image", "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    filled = {**CONTAINER_DEFAULTS, "imagePullPolicy": "Always" if latest else "IfNotPresent", **container}
    if "ports" in filled:
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    return filled


def _qos_class(containers: list[Document]) -> str:
    resources = [container.get("resources") or {} for container in containers]
    if not any(found.get("limits") or found.get("requests") for found in resources):
        return "BestEffort"
    full = all({"cpu", "memory"} <= (found.get("limits") or {}).keys() for found in resources)
    return (
        "Guaranteed" if full and all(f.get("requests", f["limits"]) == f["limits"] for f in resources) else "Burstable"
    )


def _immutable_fields(spec: Document) -> Document:
    """Return the part of a spec that is immutable."""
    kept = {key: value for key, value in spec.items() if key not in ("tolerations", "activeDeadlineSeconds")}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [{k: v for k, v in container.items() if k != "image"} for container in kept[group]]
    return kept


SERVICE_DEFAULTS = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "internalTrafficPolicy": "Cluster",
}


def default_service(service: Document) -> Document:
    """Return a new Service with defaults; raises `StatusError` if it is invalid."""
    spec = service.get("spec") or {}
    name = service["metadata"]["name"]
    if not spec.get("ports") and spec.get("clusterIP") != "None":
        raise invalid("Service", name, "spec.ports: Required value")
    return {**service, "spec": _default_service_spec(spec), "status": {"loadBalancer": {}}}


def check_service_update(before: Document, after: Document) -> Document:
    """Return an updated Service; raises `StatusError` for a change of its cluster IP."""
    address = before["spec"]["clusterIP"]
    spec = {"clusterIP": address, **(after.get("spec") or {})}
    if spec["clusterIP"] != address:
        name = after["metadata"]["name"]
        raise invalid("Service", name, "spec.clusterIPs[0]: Invalid value: may not change once set")
    return after if spec == before["spec"] else {**after, "spec": _default_service_spec(spec)}


def _default_service_spec(spec: Document) -> Document:
    address = spec.get("clusterIP") or "198.19.0.1"
    spec = {**SERVICE_DEFAULTS, **spec, "clusterIP": address, "clusterIPs": [address]}
    if "ports" in spec:
        spec["ports"] = [{"protocol": "TCP", "targetPort": port["port"], **port} for port in spec["ports"]]
    return spec
