"""What an API server knows of pods: how one is born, what of it may change, and how long it may take to leave."""

from __future__ import annotations

from typing import Any

from .answers import invalid

Document = dict[str, Any]
SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
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
CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
OVER = ("Succeeded", "Failed")


def born(pod: Document) -> Document:
    """A new pod with what the server fills in; raises `Refusal` if it cannot be."""
    spec = pod.get("spec") or {}
    name = pod["metadata"]["name"]
    if not spec.get("containers"):
        raise invalid("Pod", name, "spec.containers: Required value")
    for container in spec["containers"]:
        for field in ("name", "image"):
            if not container.get(field):
                raise invalid("Pod", name, f"spec.containers[0].{field}: Required value")
    spec = {**SPEC, "tolerations": TOLERATIONS, **spec}
    for group in ("containers", "initContainers"):
        if group in spec:
            spec[group] = [_container(container) for container in spec[group]]
    status = {"phase": "Pending", "qosClass": _quality(spec["containers"])}
    return {**pod, "spec": spec, "status": status}


def changed(before: Document, after: Document) -> Document:
    """A pod as it is to be stored; raises `Refusal` for a change of what may not change."""
    old, new = before["spec"], after.get("spec") or {}
    deadline, sooner = (spec.get("activeDeadlineSeconds") for spec in (old, new))
    if deadline is not None and (sooner is None or sooner > deadline):
        what = f"spec.activeDeadlineSeconds: Invalid value: {sooner}: must be less than or equal to previous value"
        raise invalid("Pod", after["metadata"]["name"], what)
    if old is not new and old != new and _frozen(old) != _frozen(new):
        what = "pod updates may not change fields other than `spec.containers[*].image`"
        raise invalid("Pod", after["metadata"]["name"], f"spec: Forbidden: {what}")
    return after


def told(before: Document, after: Document) -> Document:
    """A pod with a new status, which may leave out what was found when it was born."""
    if "qosClass" in after.get("status", {}):
        return after
    return {**after, "status": {"qosClass": before["status"]["qosClass"], **after.get("status", {})}}


def grace(pod: Document, asked: int | None) -> int:
    """How many seconds a pod has to leave."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in OVER:
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked)


def bound(pod: Document, node: str, now: str) -> Document:
    """A pod that has a node."""
    status = pod.get("status", {})
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = [*(c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"), scheduled]
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {**status, "conditions": conditions}}


def _container(container: Document) -> Document:
    image = container.get("image", "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    filled = {**CONTAINER, "imagePullPolicy": "Always" if latest else "IfNotPresent", **container}
    if "ports" in filled:
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    return filled


def _quality(containers: list[Document]) -> str:
    resources = [container.get("resources") or {} for container in containers]
    if not any(found.get("limits") or found.get("requests") for found in resources):
        return "BestEffort"
    full = all({"cpu", "memory"} <= (found.get("limits") or {}).keys() for found in resources)
    return (
        "Guaranteed" if full and all(f.get("requests", f["limits"]) == f["limits"] for f in resources) else "Burstable"
    )


def _frozen(spec: Document) -> Document:
    """What of a spec may never change."""
    kept = {key: value for key, value in spec.items() if key not in ("tolerations", "activeDeadlineSeconds")}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [{k: v for k, v in container.items() if k != "image"} for container in kept[group]]
    return kept
