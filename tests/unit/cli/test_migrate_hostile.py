"""`trainshed migrate --dry-run` in a cluster whose tenants try to mislead the administrator."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.listed_cluster import Objects, listed_cluster
from trainshed.cli import cli

from .cluster_objects import ENTITLED, LABELS, OWN, binding, deployment, moved, webhook

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


#: Flags by which no check was made, or others than the operator makes.
FLAGS = (
    ["--help"],
    ["--namespace=nowhere"],
    ["--no-such-flag"],
    ["--gang-scheduler-name=volcano", "--default-clean-pod-policy=All"],
)
LOOKALIKES = {
    "label": deployment("mirror/op:1", labels=LABELS),
    "image": deployment(),
    "stopped": deployment(pods=0),
    "of Trainshed": deployment(OWN, name="trainshed"),
}


def forged(namespace: str, args: list[str], **fields: object) -> list[dict]:
    """Deployments of a tenant with these flags, one for each way to be recognized."""
    found = [moved(item, namespace, "training-operator") for item in LOOKALIKES.values()]
    for item in found:
        item["spec"]["template"]["spec"]["containers"] = [
            container | {"args": args} for container in item["spec"]["template"]["spec"]["containers"]
        ]
    return found


def parts(result: Result) -> tuple[int, list[str], str]:
    """The exit code, the errors and warnings of the cluster, and what the jobs become."""
    cluster, _, jobs = result.stdout.partition("\nJobs\n")
    errors = [line for line in cluster.splitlines() if line.startswith(("  error", "  flag", "  ok"))]
    return result.exit_code, errors, jobs.partition("; cluster")[0]


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"deployments": [deployment(pods=0)], "clusterrolebindings": [ENTITLED]},
        {"deployments": [deployment(pods=0)], "validatingwebhookconfigurations": [webhook()]},
        {"deployments": [deployment(OWN, name="trainshed")], "clusterrolebindings": [ENTITLED]},
    ],
    ids=["alone", "bound", "webhook", "switched"],
)
def test_deployments_of_tenants_change_no_check_and_no_forecast(tmp_path, others):
    objects = {"pytorchjobs": [a_job()], "pods": [a_pod("ml", "Failed")], **others}
    alone = parts(migrate(tmp_path, objects))
    assert alone[0] == 1, "a failed job needs attention"
    given = list(objects.get("deployments", ()))
    for flags in FLAGS:
        beside = migrate(tmp_path, objects | {"deployments": [*forged("aaa", flags), *given, *forged("zzz", flags)]})
        assert parts(beside) == alone, flags
        assert "which any user may have created" in beside.stdout


def test_a_tenant_of_v1s_namespace_needs_its_service_account(tmp_path):
    jobs = {"pytorchjobs": [a_job()], "pods": [a_pod("ml")]}
    own = [moved(deployment(args=["--namespace=ml"]), "kubeflow", "training-operator")]
    false = [deployment(name="a", args=["--namespace=nowhere"])]
    bound = {"clusterrolebindings": [binding("kubeflow/training-operator")]}
    both = {"validatingwebhookconfigurations": [webhook()], **bound, "deployments": [*false, *own], **jobs}
    assert "\n1 job in namespace ml (" in migrate(tmp_path, both).stdout
    assert "\n1 job (" in migrate(tmp_path, both | {"deployments": false}).stdout


@pytest.mark.slow
def test_neither_the_memory_nor_a_line_grows_with_what_tenants_create(tmp_path):
    selector = {f"k{number}": "v" for number in range(8000)}
    large = [a_job(f"j{number}") for number in range(20)]
    for job in large:
        job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["nodeSelector"] = selector
        job["metadata"]["managedFields"] = [{"fieldsV1": {f"f:{key}": {} for key in selector}}]
    wrong = a_job("wrong")
    wrong["spec"]["pytorchReplicaSpecs"] |= {f"r{number}": {"replicas": -1} for number in range(1000)}
    flags = [f"--flag-{number}" for number in range(10_000)]
    objects = {"pytorchjobs": [*large, wrong], "deployments": [*forged("aaa", flags), *forged("zzz", flags)] * 4}
    with listed_cluster(tmp_path, objects) as kubeconfig:
        tracemalloc.start()
        result = CliRunner().invoke(cli, ["migrate", "--dry-run", "--kubeconfig", str(kubeconfig)])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "\n21 jobs (" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 10_000
    assert peak < 32_000_000, peak
