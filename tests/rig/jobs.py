"""Short jobs for tests, of every kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What a test must know of a kind: where its replicas stand, and the name of their container."""

    field: str
    container: str


KINDS = {
    "TFJob": Kind("tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": Kind("pytorchReplicaSpecs", "pytorch"),
    "MPIJob": Kind("mpiReplicaSpecs", "mpi"),
    "XGBoostJob": Kind("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": Kind("paddleReplicaSpecs", "paddle"),
    "JAXJob": Kind("jaxReplicaSpecs", "jax"),
}


def template(container: str, **spec: object) -> dict:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": container, "image": "python:3.11-slim"}], **spec}}


def job(
    kind: str, name: str, *, policy: dict | None = None, restart: str | None = "Never", **roles: int | None
) -> dict:
    """A job of any kind with so many replicas of each role; None leaves the number, or the policy, unsaid."""
    known = KINDS[kind]
    spec = {"runPolicy": policy or {}, known.field: {role: _replicas(known, n, restart) for role, n in roles.items()}}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def replicas(job: dict, role: str) -> dict:
    """The part of a job that describes a role, to be changed."""
    return job["spec"][KINDS[job["kind"]].field][role]


def pod_spec(job: dict, role: str) -> dict:
    """The pod spec in the template of a role, to be changed."""
    return replicas(job, role)["template"]["spec"]


def tfjob(name: str, *, policy: dict | None = None, restart: str | None = "Never", **roles: int | None) -> dict:
    """A TFJob with so many replicas of each role."""
    return job("TFJob", name, policy=policy, restart=restart, **roles)


def pytorchjob(name: str, *, policy: dict | None = None, restart: str | None = "Never", **roles: int | None) -> dict:
    """A PyTorchJob with so many replicas of each role."""
    return job("PyTorchJob", name, policy=policy, restart=restart, **roles)


def _replicas(kind: Kind, count: int | None, restart: str | None) -> dict:
    said = {"replicas": count, "restartPolicy": restart}
    return {key: value for key, value in said.items() if value is not None} | {"template": template(kind.container)}
