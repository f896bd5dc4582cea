"""What an API server knows of Services: how one is born, and that its address is for life."""

from __future__ import annotations

from typing import Any

from .answers import invalid

Document = dict[str, Any]
SPEC = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "internalTrafficPolicy": "Cluster",
}


def born(service: Document) -> Document:
    """A new Service with what the server fills in; raises `Refusal` if it cannot be."""
    spec = service.get("spec") or {}
    name = service["metadata"]["name"]
    if not spec.get("ports") and spec.get("clusterIP") != "None":
        raise invalid("Service", name, "spec.ports: Required value")
    return {**service, "spec": _filled(spec), "status": {"loadBalancer": {}}}


def changed(before: Document, after: Document) -> Document:
    """A Service as it is to be stored; raises `Refusal` for a change of its address."""
    address = before["spec"]["clusterIP"]
    spec = {"clusterIP": address, **(after.get("spec") or {})}
    if spec["clusterIP"] != address:
        name = after["metadata"]["name"]
        raise invalid("Service", name, "spec.clusterIPs[0]: Invalid value: may not change once set")
    return after if spec == before["spec"] else {**after, "spec": _filled(spec)}


def _filled(spec: Document) -> Document:
    address = spec.get("clusterIP") or "198.19.0.1"
    spec = {**SPEC, **spec, "clusterIP": address, "clusterIPs": [address]}
    if "ports" in spec:
        spec["ports"] = [{"protocol": "TCP", "targetPort": port["port"], **port} for port in spec["ports"]]
    return spec
