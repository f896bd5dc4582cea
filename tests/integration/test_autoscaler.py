"""The autoscaler of an elastic PyTorchJob: there as long as the job may have pods, reverted, and written no more often.

The rows of v1 are in tests/conformance/test_objects_elastic.py: what it looks like, suspension, and jobs without one.
"""

from __future__ import annotations

import re
import time
import urllib.request

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import job, pytorchjob
from support.operator import Operator
from support.user_client import MERGE, Refused, UserClient, eventually
from trainshed import crd

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
QUEUE = {
    "type": "External",
    "external": {
        "metric": {"name": "queue_length", "selector": {"matchLabels": {"queue": "a"}}},
        "target": {"type": "AverageValue", "averageValue": "1000m"},
    },
}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": 2**29}}}
PODS = {"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "0.5"}}}
BARE = {
    "type": "External",
    "external": {
        "metric": {"name": "length", "selector": {"matchLabels": {}, "matchExpressions": []}},
        "target": {"type": "Value", "value": "0.25"},
    },
}
WRITES = re.compile(r'^trainshed_api_requests_total.*resource="horizontalpodautoscalers".*verb="(?!GET).* (\S+)')


def elastic(name: str, metrics: list | None, workers: int = 1, policy: dict | None = None, **bounds: int) -> dict:
    """An elastic PyTorchJob."""
    found = pytorchjob(name, policy=policy, Worker=workers)
    bounds = bounds or {"minReplicas": 1, "maxReplicas": 3}
    found["spec"]["elasticPolicy"] = bounds | ({} if metrics is None else {"metrics": metrics})
    return found


def scalers(user: UserClient) -> dict[str, dict]:
    """The autoscalers of the namespace by name."""
    path = f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers"
    return {item["metadata"]["name"]: item for item in user.call("GET", path)["items"]}


def edit(user: UserClient, name: str, patch: dict) -> dict:
    """Change an autoscaler by hand."""
    path = f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers/{name}"
    return user.call("PATCH", path, patch, MERGE)


def writes(operator: Operator) -> float:
    """Return the number of requests of the operator to change an autoscaler."""
    time.sleep(1.1)  # the metrics are computed once a second
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.metrics}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(found.group(1)) for line in lines if (found := WRITES.match(line)))


@pytest.fixture
def scaled(user: UserClient, kubelet: FakeKubelet, shared_operator: Operator) -> dict:
    """A running job with an autoscaler."""
    user.create(elastic("el", [CPU]))
    eventually(lambda: user.state("PyTorchJob", "el") == "Running")
    return scalers(user)["el"]


def test_the_autoscaler_of_a_finished_job_is_deleted(user: UserClient, kubelet: FakeKubelet, scaled: dict):
    kubelet.end("el-worker-0", 0)
    eventually(lambda: user.state("PyTorchJob", "el") == "Succeeded")
    eventually(lambda: not scalers(user))
    user.patch_job("PyTorchJob", "el", {"metadata": {"labels": {"reconcile": "again"}}})
    time.sleep(1)
    assert not scalers(user)


@pytest.mark.parametrize("nothing", [None, []])
def test_the_autoscaler_is_deleted_when_the_metrics_are_removed(user: UserClient, scaled: dict, nothing: list | None):
    user.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": {"metrics": nothing}}})
    eventually(lambda: not scalers(user))
    assert user.state("PyTorchJob", "el") == "Running"


def test_the_autoscaler_is_deleted_when_the_elastic_policy_is_removed(user: UserClient, scaled: dict):
    user.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": None}})
    eventually(lambda: not scalers(user))


def test_the_autoscaler_is_deleted_with_the_job(user: UserClient, scaled: dict):
    user.delete_job("PyTorchJob", "el")
    eventually(lambda: not scalers(user), 30)


def test_a_deleted_autoscaler_is_created_again(user: UserClient, scaled: dict):
    path = f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers/el"
    user.call("DELETE", path)
    again = eventually(lambda: scalers(user).get("el"))
    assert again["metadata"]["uid"] != scaled["metadata"]["uid"]


@pytest.mark.parametrize(
    "patch",
    [
        {"minReplicas": 2},
        {"maxReplicas": 7},
        {"scaleTargetRef": {"name": "another"}},
        {"metrics": [QUEUE]},
        {"metrics": None},
        {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 1}}},
    ],
    ids="-".join,
)
def test_changes_by_others_are_reverted(user: UserClient, scaled: dict, patch: dict):
    assert edit(user, "el", {"spec": patch})["spec"] != scaled["spec"]
    eventually(lambda: scalers(user)["el"]["spec"] == scaled["spec"])


def test_metadata_that_others_add_stays(user: UserClient, scaled: dict):
    edit(user, "el", {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}})
    user.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": {"maxReplicas": 4}}})
    eventually(lambda: scalers(user)["el"]["spec"]["maxReplicas"] == 4)
    metadata = scalers(user)["el"]["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("a", "b")


def test_the_autoscaler_follows_changes_of_the_job(user: UserClient, scaled: dict):
    user.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": {"minReplicas": 2, "metrics": [QUEUE, CPU]}}})
    spec = eventually(lambda: (found := scalers(user)["el"]["spec"])["minReplicas"] == 2 and found)
    assert [metric["type"] for metric in spec["metrics"]] == ["External", "Resource"]


@pytest.mark.parametrize(
    "metrics",
    [[QUEUE, CPU], [MEMORY, PODS, CPU, QUEUE], [BARE], [MEMORY, PODS, BARE, QUEUE] * 30],
    ids=["in another order", "all", "with empty parts", "so many that a digest is kept"],
)
def test_values_that_the_server_normalizes_are_not_written_again(
    user: UserClient, kubelet: FakeKubelet, shared_operator: Operator, metrics: list
):
    user.create(elastic("quiet", metrics))
    eventually(lambda: user.state("PyTorchJob", "quiet") == "Running")
    before, found = writes(shared_operator), scalers(user)["quiet"]
    assert before >= 1
    for number in range(5):  # each makes the operator reconcile again
        user.patch_job("PyTorchJob", "quiet", {"metadata": {"labels": {"number": str(number)}}})
        edit(user, "quiet", {"metadata": {"labels": {"number": str(number)}}})
        time.sleep(0.3)
    assert writes(shared_operator) == before
    assert scalers(user)["quiet"]["spec"] == found["spec"]


def test_kubernetes_autoscaler_reaches_the_workers(user: UserClient, kubelet: FakeKubelet, shared_operator: Operator):
    user.create(elastic("few", [CPU], minReplicas=2, maxReplicas=3))
    eventually(lambda: len(user.pods()) == 2, 60)
    replicas = user.job("PyTorchJob", "few")["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]
    assert replicas == 2
    eventually(lambda: scalers(user)["few"]["status"].get("currentReplicas") == 2, 60)


def test_metrics_that_the_server_refuses_are_reported_in_the_status(
    user: UserClient, kubelet: FakeKubelet, shared_operator: Operator
):
    user.create(elastic("odd", [{"type": "Odd"}]))
    condition = eventually(lambda: user.conditions("PyTorchJob", "odd").get("Blocked"))
    assert "metrics" in condition["message"]
    user.patch_job("PyTorchJob", "odd", {"spec": {"elasticPolicy": {"metrics": [CPU]}}})
    eventually(lambda: user.state("PyTorchJob", "odd") == "Running", 20)
    assert "Blocked" not in user.conditions("PyTorchJob", "odd")


def test_an_autoscaler_of_another_owner_is_left_alone(
    user: UserClient, kubelet: FakeKubelet, shared_operator: Operator
):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs"}
    theirs = {"metadata": {"name": "el"}, "spec": {"scaleTargetRef": target, "maxReplicas": 1}}
    path = f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers"
    made = user.call("POST", path, theirs)
    user.create(elastic("el", [CPU]))
    eventually(lambda: user.conditions("PyTorchJob", "el").get("Blocked"))
    assert scalers(user)["el"]["spec"] == made["spec"]
    user.call("DELETE", f"{path}/el")
    eventually(lambda: user.state("PyTorchJob", "el") == "Running", 30)
    assert scalers(user)["el"]["spec"]["scaleTargetRef"]["name"] == "el"


@pytest.mark.parametrize("kind", ["PyTorchJob", "PaddleJob"])
def test_a_metric_without_its_parts_is_refused(user: UserClient, kind: str):
    wanted = job(kind, "wrong", Worker=1)
    wanted["spec"]["elasticPolicy"] = {"metrics": [{"type": "Resource", "resource": {"target": {"type": "Value"}}}]}
    with pytest.raises(Refused, match=r"metrics\[0\]\.resource\.name: Required value"):
        user.create(wanted)


def test_the_schema_of_a_metric_equals_the_servers(user: UserClient):
    schemas = user.call("GET", "/openapi/v3/apis/autoscaling/v2")["components"]["schemas"]
    assert crd.strip_part(schemas, "io.k8s.api.autoscaling.v2.MetricSpec") == crd.METRIC_SCHEMA


def test_a_minimum_above_the_maximum_is_refused(user: UserClient):
    with pytest.raises(Refused, match="must be no more than maxReplicas"):
        user.create(elastic("wrong", [CPU], minReplicas=3, maxReplicas=2))
