"""The bodies of the calls of a sequence: objects of each kind, changes, statuses, and invalid requests."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sequences import Call

Document = dict[str, Any]
UNKNOWN_UID = "00000000-0000-4000-8000-000000000000"
RBAC = "rbac.authorization.k8s.io/v1"
HEADS = {
    "pods": {"apiVersion": "v1", "kind": "Pod"},
    "services": {"apiVersion": "v1", "kind": "Service"},
    "configmaps": {"apiVersion": "v1", "kind": "ConfigMap"},
    "secrets": {"apiVersion": "v1", "kind": "Secret"},
    "leases": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
    "roles": {"apiVersion": RBAC, "kind": "Role"},
    "tfjobs": {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"},
    "pytorchjobs": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"},
}
WITH_STATUS = ("pods", "tfjobs", "pytorchjobs")
FIELDS = {
    "tfjobs": ("tfReplicaSpecs", "Worker", "tensorflow"),
    "pytorchjobs": ("pytorchReplicaSpecs", "Worker", "pytorch"),
}


def new(random: Random, plural: str, name: str) -> Document:
    """Return a new object."""
    labels = random.choice(({}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}))
    metadata: Document = {"name": f"$name:{name}"}
    if labels:
        metadata["labels"] = labels
    return {**HEADS[plural], "metadata": metadata, **_content(random, plural)}


def plain(plural: str) -> Document:
    """Return the simplest object of a kind, without metadata."""
    return {**HEADS[plural], **_content(Random(0), plural)}


def change(random: Random, plural: str) -> Document:
    """Return a patch of a spec or of data."""
    if plural == "pods":
        return {
            "spec": random.choice(({"restartPolicy": "Never"}, {"activeDeadlineSeconds": random.choice((60, 30))}, {}))
        }
    if plural == "services":
        return {"spec": random.choice(({"selector": {"app": random.choice("ab")}}, {"publishNotReadyAddresses": True}))}
    if plural in FIELDS:
        return {"spec": _job_change(random, *FIELDS[plural][:2])}
    content = _content(random, plural)
    return random.choice((content, content, {"strange": 1})) if plural not in ("leases", "roles") else content


def status(random: Random, plural: str) -> Document:
    """Return a status."""
    if plural in FIELDS:
        return random.choice(
            (
                {"replicaStatuses": {"Worker": {"active": random.choice((0, 1, 2))}}},
                {"startTime": "2026-01-01T00:00:00Z"},
                {"conditions": [{"type": "Created", "status": "True"}], "strange": 1},
                {"startTime": None},
                {"restarts": "many"},
                {},
            )
        )
    if plural == "pods":
        return {"phase": random.choice(("Pending", "Running", "Succeeded", "Failed"))}
    return {}


def invalid(random: Random, plural: str, name: str, body: Document) -> Call:
    """Return an invalid request."""
    from .sequences import Call  # noqa: PLC0415 - each knows the other

    metadata = body["metadata"]
    wrong = random.choice(("name", "version", "namespace", "kind", "long", "url", "nowhere", "owners"))
    changes: dict[str, Document] = {
        "name": {"name": "Not_A_Name"},
        "version": {"resourceVersion": "1"},
        "namespace": {"namespace": "elsewhere"},
        "long": {"name": "x" * 300},
        "owners": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": ""}]},
    }
    if wrong in changes:
        return Call("POST", plural, body={**body, "metadata": {**metadata, **changes[wrong]}})
    if wrong == "kind":
        return Call("POST", plural, body={**body, "kind": "Nothing"})
    if wrong == "url":
        return Call("PUT", plural, name, body={**body, "metadata": {**metadata, "name": "another"}})
    return Call("PATCH", plural, "nowhere", body={"metadata": {"labels": {"a": "b"}}})


def _content(random: Random, plural: str) -> Document:
    if plural in FIELDS:
        return {"spec": _job(random, *FIELDS[plural])}
    if plural == "services":
        return {"spec": _service(random)}
    if plural == "pods":
        return {"spec": _pod(random, "main")}
    choices: dict[str, Document] = {
        "configmaps": {"data": {"key": random.choice("xy")}},
        "secrets": {"data": {"key": random.choice(("eA==", "eQ=="))}},
        "leases": {"spec": {"holderIdentity": random.choice("xy"), "leaseDurationSeconds": random.choice((15, 20))}},
        "roles": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [random.choice(("get", "list"))]}]},
    }
    return choices[plural]


def _service(random: Random) -> Document:
    spec: Document = {"clusterIP": "None", "selector": {"app": random.choice("ab")}}
    if random.random() < 0.5:
        spec["ports"] = [{"name": "port", "port": random.choice((2222, 2223))}]
    return spec


def _pod(random: Random, container: str) -> Document:
    spec: Document = {"containers": [{"name": container, "image": random.choice(("x", "x:1"))}]}
    spec["automountServiceAccountToken"] = False  # the volume of it has a random name
    if random.random() < 0.3:
        spec["terminationGracePeriodSeconds"] = random.choice((0, 5))
    return spec


def _job(random: Random, field: str, role: str, container: str) -> Document:
    group: Document = {"template": {"spec": {"containers": [{"name": container, "image": "x"}]}}}
    if random.random() < 0.8:
        group["replicas"] = random.choice((0, 1, 2, 2, -1, 200_000))
    if random.random() < 0.5:
        group["restartPolicy"] = random.choice(("Never", "OnFailure", "Sometimes"))
    spec: Document = {field: {role: group}}
    if random.random() < 0.4:
        spec["runPolicy"] = random.choice(({"suspend": True}, {"cleanPodPolicy": "All"}, {"strange": 1}, {}))
    return spec


def _job_change(random: Random, field: str, role: str) -> Document:
    return random.choice(
        (
            {field: {role: {"replicas": random.choice((0, 1, 2, 3, -1))}}},
            {"runPolicy": {"suspend": random.choice((True, False))}},
            {"runPolicy": {"backoffLimit": random.choice((1, 2, None, "many"))}},
            {"runPolicy": None},
            {"strange": 1},
        )
    )
