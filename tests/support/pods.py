"""Accessors for pods and other objects of a cluster."""

from __future__ import annotations


def names(objects: list[dict]) -> list[str]:
    """Their names, in order."""
    return sorted(item["metadata"]["name"] for item in objects)


def uids(objects: list[dict]) -> dict[str, str]:
    """Their UIDs by name."""
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in objects}


def container(pod: dict, name: str = "") -> dict:
    """A pod's container of that name, or its first."""
    return next(one for one in pod["spec"]["containers"] if name in ("", one["name"]))


def env(pod: dict, name: str = "") -> dict[str, str]:
    """The environment of a container, in its order; of a name that stands twice the last value, as for a process."""
    return {variable["name"]: variable.get("value", "") for variable in container(pod, name).get("env", [])}


def ports(pod: dict, name: str = "") -> list[tuple[str, int]]:
    """Name and number of a container's ports."""
    return [(port.get("name", ""), port["containerPort"]) for port in container(pod, name).get("ports", [])]
