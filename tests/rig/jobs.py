"""Short jobs for tests."""

from __future__ import annotations


def template(container: str, **spec: object) -> dict:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": container, "image": "python:3.11-slim"}], **spec}}


def tfjob(name: str, *, policy: dict | None = None, restart: str = "Never", **roles: int) -> dict:
    """A TFJob with so many replicas of each role."""
    groups = {
        role: {"replicas": count, "restartPolicy": restart, "template": template("tensorflow")}
        for role, count in roles.items()
    }
    return _job("TFJob", name, "tfReplicaSpecs", groups, policy)


def pytorchjob(name: str, *, policy: dict | None = None, restart: str = "Never", **roles: int) -> dict:
    """A PyTorchJob with so many replicas of each role."""
    groups = {
        role: {"replicas": count, "restartPolicy": restart, "template": template("pytorch")}
        for role, count in roles.items()
    }
    return _job("PyTorchJob", name, "pytorchReplicaSpecs", groups, policy)


def _job(kind: str, name: str, field: str, groups: dict, policy: dict | None) -> dict:
    spec = {"runPolicy": policy or {}, field: groups}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
