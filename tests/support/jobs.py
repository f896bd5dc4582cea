"""Short jobs for tests, of every kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What a test must know of a kind: where its replicas stand, their container, the roles of the smallest job."""

    field: str
    container: str
    least: tuple[str, ...]


KINDS = {
    "TFJob": Kind("tfReplicaSpecs", "tensorflow", ("Worker",)),
    "PyTorchJob": Kind("pytorchReplicaSpecs", "pytorch", ("Master",)),
    "MPIJob": Kind("mpiReplicaSpecs", "mpi", ("Launcher", "Worker")),
    "XGBoostJob": Kind("xgbReplicaSpecs", "xgboost", ("Master",)),
    "PaddleJob": Kind("paddleReplicaSpecs", "paddle", ("Worker",)),
    "JAXJob": Kind("jaxReplicaSpecs", "jax", ("Worker",)),
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


def smallest(kind: str, name: str, *, policy: dict | None = None) -> dict:
    """The smallest job of a kind that can be: one replica of each role that must be there."""
    return job(kind, name, policy=policy, **dict.fromkeys(KINDS[kind].least, 1))


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
