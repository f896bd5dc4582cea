"""Jobs as v1's own tests of validation have them, and what can be wrong with them."""

from __future__ import annotations

import copy

from support.jobs import KINDS, job, pod_spec

OURS, KUEUES = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
TF, PT, MPI, XGB, PD, JX = KINDS
#: A valid job of each kind, as v1's own tests have them.
VALID = {
    TF: job(TF, "test", policy={"managedBy": OURS}, restart="OnFailure", Worker=2),
    PT: job(PT, "test", policy={"managedBy": OURS}, restart="OnFailure", Master=1, Worker=1),
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


def counting(kind: str, **roles: int | None) -> dict:
    """A valid job of a kind but for its roles."""
    return job(kind, "test", **roles)


def elastic(policy: dict, **roles: int | None) -> dict:
    """A PyTorchJob with this elastic policy."""
    wanted = counting(PT, **roles)
    wanted["spec"]["elasticPolicy"] = policy
    return wanted


def with_container(kind: str, role: str, **fields: object) -> dict:
    """A valid job with something changed in a role's container."""
    wanted = valid(kind)
    pod_spec(wanted, role)["containers"][0].update(fields)
    return wanted


def without_containers(kind: str, role: str) -> dict:
    """A valid job with a role of no containers."""
    wanted = valid(kind)
    pod_spec(wanted, role)["containers"] = []
    return wanted


def named(kind: str, name: str) -> dict:
    """A valid job of another name."""
    return valid(kind) | {"metadata": {"name": name}}


def field(kind: str) -> str:
    """The path of a kind's replicas."""
    return f"spec.{KINDS[kind].field}"
