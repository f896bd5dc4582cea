"""Short jobs for tests, of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Stands for a field that is not there.
GONE: Any = object()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: the field of its replica specs, its container, and the roles of the smallest job."""

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
    return {"spec": {"containers": [{"name": container, "image": "python:3.11-slim"}], **spec}}


def job(
    kind: str, name: str, *, policy: dict | None = None, restart: str | None = "Never", **roles: int | None
) -> dict:
    """Return a job of any kind with replicas of each role; None omits the number, or the policy."""
    known = KINDS[kind]
    spec = {"runPolicy": policy or {}, known.field: {role: _replicas(known, n, restart) for role, n in roles.items()}}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def smallest(kind: str, name: str, *, policy: dict | None = None) -> dict:
    """Return the smallest valid job of a kind: one replica of each required role."""
    return job(kind, name, policy=policy, **dict.fromkeys(KINDS[kind].least, 1))


def replicas(job: dict, role: str) -> dict:
    """The part of a job that describes a role, to be changed."""
    return job["spec"][KINDS[job["kind"]].field][role]


def pod_spec(job: dict, role: str) -> dict:
    """The pod spec in the template of a role, to be changed."""
    return replicas(job, role)["template"]["spec"]


def edited(job: dict, *path: object, value: object = GONE) -> dict:
    """Return the job with another value at a path, or without one."""
    part: Any = job
    for key in path[:-1]:
        part = part[key]
    if value is GONE:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return job


def tfjob(name: str, *, policy: dict | None = None, restart: str | None = "Never", **roles: int | None) -> dict:
    return job("TFJob", name, policy=policy, restart=restart, **roles)


def pytorchjob(name: str, *, policy: dict | None = None, restart: str | None = "Never", **roles: int | None) -> dict:
    return job("PyTorchJob", name, policy=policy, restart=restart, **roles)


def _replicas(kind: Kind, count: int | None, restart: str | None) -> dict:
    said = {"replicas": count, "restartPolicy": restart}
    return {key: value for key, value in said.items() if value is not None} | {"template": template(kind.container)}
