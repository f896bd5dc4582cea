"""The valid jobs of v1's validation tests, and changes that make them invalid."""

from __future__ import annotations

import copy

from support.jobs import KINDS, job, pod_spec

TRAINING_OPERATOR, KUEUES = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
TF, PT, MPI, XGB, PD, JX = KINDS
#: A valid job of each kind, as v1's own tests have them.
VALID = {
    TF: job(TF, "test", policy={"managedBy": TRAINING_OPERATOR}, restart="OnFailure", Worker=2),
    PT: job(PT, "test", policy={"managedBy": TRAINING_OPERATOR}, restart="OnFailure", Master=1, Worker=1),
    MPI: job(MPI, "test", Launcher=1, Worker=2),
    XGB: job(XGB, "test", Master=1, Worker=2),
    PD: job(PD, "test", Worker=2),
    JX: job(JX, "test", Worker=2),
}
VALID[PT]["spec"]["elasticPolicy"] = {"rdzvBackend": "c10d"}


def valid(kind: str, policy: dict | None = None, **spec: object) -> dict:
    """A valid job of a kind with some fields of its run policy and its spec changed; None takes a field out."""
    wanted = copy.deepcopy(VALID[kind])
    wanted["spec"]["runPolicy"].update(policy or {})
    wanted["spec"].update(spec)
    wanted["spec"] = {key: value for key, value in wanted["spec"].items() if value is not None}
    return wanted


def with_roles(kind: str, **roles: int | None) -> dict:
    """A job of a kind with these numbers of replicas."""
    return job(kind, "test", **roles)


def with_elastic_policy(policy: dict, **roles: int | None) -> dict:
    """A PyTorchJob with this elastic policy."""
    wanted = with_roles(PT, **roles)
    wanted["spec"]["elasticPolicy"] = policy
    return wanted


def with_container(kind: str, role: str, **fields: object) -> dict:
    """A valid job with changed fields in the container of a role."""
    wanted = valid(kind)
    pod_spec(wanted, role)["containers"][0].update(fields)
    return wanted


def without_containers(kind: str, role: str) -> dict:
    """A valid job with a role that has no containers."""
    wanted = valid(kind)
    pod_spec(wanted, role)["containers"] = []
    return wanted


def with_name(kind: str, name: str) -> dict:
    """A valid job with another name."""
    return valid(kind) | {"metadata": {"name": name}}


def replicas_field(kind: str) -> str:
    """The path of a kind's replicas."""
    return f"spec.{KINDS[kind].field}"
