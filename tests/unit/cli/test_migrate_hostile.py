"""`trainshed migrate --dry-run` in a cluster whose tenants try to mislead the administrator."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.listed_cluster import Objects, listed_cluster
from trainshed.cli import cli

SINCE = "2026-01-01T12:00:00Z"


def migrate(folder: Path, objects: Objects, *words: str) -> Result:
    with listed_cluster(folder, objects) as kubeconfig:
        return CliRunner().invoke(cli, ["migrate", "--dry-run", "--kubeconfig", str(kubeconfig), *words])


def a_job(name: str = "victim", namespace: str = "ml") -> dict:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    conditions = [
        {"type": kind, "status": "True", "reason": f"PyTorchJob{kind}", "message": "m", "lastTransitionTime": SINCE}
        for kind in ("Created", "Running")
    ]
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": "job-uid", "creationTimestamp": SINCE},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}},
        "status": {"startTime": SINCE, "conditions": conditions},
    }


def a_child(namespace: str, **fields: object) -> dict:
    """An object that names the job as its controller, by its uid."""
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "victim", "uid": "job-uid"}
    labels = {"job-name": "victim", "replica-type": "master", "replica-index": "0", "job-role": "master"}
    metadata = {
        "name": "victim-master-0",
        "namespace": namespace,
        "uid": f"{namespace}-uid",
        "labels": {f"training.kubeflow.org/{key}": value for key, value in labels.items()},
        "ownerReferences": [owner | {"controller": True}],
    }
    return {"metadata": metadata, **fields}


def a_pod(namespace: str, phase: str = "Running") -> dict:
    state = {"running": {"startedAt": SINCE}} if phase == "Running" else {"terminated": {"exitCode": 1}}
    containers = [{"name": "pytorch", "state": state}]
    return a_child(namespace, spec={"containers": []}, status={"phase": phase, "containerStatuses": containers})


@pytest.mark.parametrize(
    ("plural", "child"),
    [
        ("pods", lambda namespace: a_pod(namespace, "Failed")),
        ("services", lambda namespace: a_child(namespace, spec={"clusterIP": "10.0.0.1"})),
        ("horizontalpodautoscalers", lambda namespace: a_child(namespace, spec={"minReplicas": 1})),
    ],
    ids=["pods", "services", "others"],
)
def test_children_in_other_namespaces_change_no_forecast(tmp_path, plural, child):
    own = {"pytorchjobs": [a_job()], "pods": [a_pod("ml")]}
    alone = migrate(tmp_path, own)
    assert "PyTorchJob ml/victim (Running, 1 pod): " in alone.stdout
    beside = migrate(tmp_path, own | {plural: [child("aaa"), *own.get(plural, ()), child("zzz")]})
    assert (beside.exit_code, beside.stdout) == (alone.exit_code, alone.stdout)
