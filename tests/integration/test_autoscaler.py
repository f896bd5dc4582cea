"""The autoscaler of an elastic PyTorchJob: v1's object, there as long as the job may have pods, and left in peace."""

from __future__ import annotations

import re
import time
import urllib.request

import pytest

from support.fake_kubelet import Stage
from support.jobs import job, pytorchjob
from support.operator import Operator
from support.user_client import MERGE, Hand, Refused, eventually
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


def scalers(hand: Hand) -> dict[str, dict]:
    """The autoscalers of the namespace by name."""
    path = f"/apis/autoscaling/v2/namespaces/{hand.namespace}/horizontalpodautoscalers"
    return {item["metadata"]["name"]: item for item in hand.call("GET", path)["items"]}


def edit(hand: Hand, name: str, patch: dict) -> dict:
    """Somebody changes an autoscaler by hand."""
    path = f"/apis/autoscaling/v2/namespaces/{hand.namespace}/horizontalpodautoscalers/{name}"
    return hand.call("PATCH", path, patch, MERGE)


def writes(operator: Operator) -> float:
    """How many requests to change an autoscaler the operator has made so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.metrics}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(found.group(1)) for line in lines if (found := WRITES.match(line)))


@pytest.fixture
def scaled(hand: Hand, stage: Stage, shared_operator: Operator) -> dict:
    """A running job with an autoscaler."""
    hand.create(elastic("el", [CPU]))
    eventually(lambda: hand.state("PyTorchJob", "el") == "Running")
    return scalers(hand)["el"]


def test_it_is_v1s(hand: Hand, scaled: dict):
    assert scaled["spec"] == {
        "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "el"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [CPU],
    }
    (owner,) = scaled["metadata"]["ownerReferences"]
    uid = hand.job("PyTorchJob", "el")["metadata"]["uid"]
    assert (owner["uid"], owner["kind"], owner["controller"]) == (uid, "PyTorchJob", True)


def test_it_goes_with_suspension_and_comes_back_with_the_resume(hand: Hand, scaled: dict):
    hand.patch_job("PyTorchJob", "el", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: not scalers(hand))
    hand.patch_job("PyTorchJob", "el", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: list(scalers(hand)) == ["el"])


def test_it_goes_with_the_verdict_and_stays_away(hand: Hand, stage: Stage, scaled: dict):
    stage.end("el-worker-0", 0)
    eventually(lambda: hand.state("PyTorchJob", "el") == "Succeeded")
    eventually(lambda: not scalers(hand))
    hand.patch_job("PyTorchJob", "el", {"metadata": {"labels": {"look": "again"}}})
    time.sleep(1)
    assert not scalers(hand)


@pytest.mark.parametrize("nothing", [None, []])
def test_it_goes_with_the_metrics(hand: Hand, scaled: dict, nothing: list | None):
    hand.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": {"metrics": nothing}}})
    eventually(lambda: not scalers(hand))
    assert hand.state("PyTorchJob", "el") == "Running"


def test_it_goes_with_the_elasticity(hand: Hand, scaled: dict):
    hand.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": None}})
    eventually(lambda: not scalers(hand))


def test_it_is_gone_with_the_job(hand: Hand, scaled: dict):
    hand.delete_job("PyTorchJob", "el")
    eventually(lambda: not scalers(hand), 30)


def test_one_deleted_by_hand_is_made_again(hand: Hand, scaled: dict):
    path = f"/apis/autoscaling/v2/namespaces/{hand.namespace}/horizontalpodautoscalers/el"
    hand.call("DELETE", path)
    again = eventually(lambda: scalers(hand).get("el"))
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
def test_what_others_change_is_put_right(hand: Hand, scaled: dict, patch: dict):
    assert edit(hand, "el", {"spec": patch})["spec"] != scaled["spec"]
    eventually(lambda: scalers(hand)["el"]["spec"] == scaled["spec"])


def test_what_others_add_besides_the_spec_stays(hand: Hand, scaled: dict):
    edit(hand, "el", {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}})
    hand.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": {"maxReplicas": 4}}})
    eventually(lambda: scalers(hand)["el"]["spec"]["maxReplicas"] == 4)
    metadata = scalers(hand)["el"]["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("a", "b")


def test_it_follows_the_job(hand: Hand, scaled: dict):
    hand.patch_job("PyTorchJob", "el", {"spec": {"elasticPolicy": {"minReplicas": 2, "metrics": [QUEUE, CPU]}}})
    spec = eventually(lambda: (found := scalers(hand)["el"]["spec"])["minReplicas"] == 2 and found)
    assert [metric["type"] for metric in spec["metrics"]] == ["External", "Resource"]


@pytest.mark.parametrize(
    "metrics",
    [[CPU], [QUEUE], [CPU, QUEUE], [QUEUE, CPU], [MEMORY, PODS, CPU, QUEUE], [BARE]],
    ids=["cpu", "queue", "cpu and queue", "queue and cpu", "all", "with empty parts"],
)
def test_what_the_server_spells_otherwise_is_no_change(
    hand: Hand, stage: Stage, shared_operator: Operator, metrics: list
):
    hand.create(elastic("quiet", metrics))
    eventually(lambda: hand.state("PyTorchJob", "quiet") == "Running")
    before, found = writes(shared_operator), scalers(hand)["quiet"]
    assert before >= 1
    for number in range(5):  # each makes the operator look again
        hand.patch_job("PyTorchJob", "quiet", {"metadata": {"labels": {"number": str(number)}}})
        edit(hand, "quiet", {"metadata": {"labels": {"number": str(number)}}})
        time.sleep(0.3)
    assert writes(shared_operator) == before
    assert scalers(hand)["quiet"]["spec"] == found["spec"]


def test_kubernetes_autoscaler_reaches_the_workers(hand: Hand, stage: Stage, shared_operator: Operator):
    hand.create(elastic("few", [CPU], minReplicas=2, maxReplicas=3))
    eventually(lambda: len(hand.pods()) == 2, 60)
    replicas = hand.job("PyTorchJob", "few")["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]
    assert replicas == 2
    eventually(lambda: scalers(hand)["few"]["status"].get("currentReplicas") == 2, 60)


def test_metrics_that_the_server_does_not_take_are_named_in_the_status(
    hand: Hand, stage: Stage, shared_operator: Operator
):
    hand.create(elastic("odd", [{"type": "Odd"}]))
    condition = eventually(lambda: hand.conditions("PyTorchJob", "odd").get("Blocked"))
    assert "metrics" in condition["message"]
    hand.patch_job("PyTorchJob", "odd", {"spec": {"elasticPolicy": {"metrics": [CPU]}}})
    eventually(lambda: hand.state("PyTorchJob", "odd") == "Running", 20)
    assert "Blocked" not in hand.conditions("PyTorchJob", "odd")


def test_without_metrics_there_is_none(hand: Hand, stage: Stage, shared_operator: Operator):
    hand.create(elastic("plain", None))
    paddle = job("PaddleJob", "paddle", Worker=1)
    paddle["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2, "metrics": [CPU]}
    hand.create(paddle)
    eventually(lambda: hand.state("PyTorchJob", "plain") == "Running" == hand.state("PaddleJob", "paddle"))
    assert not scalers(hand)


def test_somebody_elses_of_that_name_is_left_alone(hand: Hand, stage: Stage, shared_operator: Operator):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs"}
    theirs = {"metadata": {"name": "el"}, "spec": {"scaleTargetRef": target, "maxReplicas": 1}}
    path = f"/apis/autoscaling/v2/namespaces/{hand.namespace}/horizontalpodautoscalers"
    made = hand.call("POST", path, theirs)
    hand.create(elastic("el", [CPU]))
    eventually(lambda: hand.conditions("PyTorchJob", "el").get("Blocked"))
    assert scalers(hand)["el"]["spec"] == made["spec"]
    hand.call("DELETE", f"{path}/el")
    eventually(lambda: hand.state("PyTorchJob", "el") == "Running", 30)
    assert scalers(hand)["el"]["spec"]["scaleTargetRef"]["name"] == "el"


@pytest.mark.parametrize("kind", ["PyTorchJob", "PaddleJob"])
def test_a_metric_without_its_parts_is_refused(hand: Hand, kind: str):
    wanted = job(kind, "wrong", Worker=1)
    wanted["spec"]["elasticPolicy"] = {"metrics": [{"type": "Resource", "resource": {"target": {"type": "Value"}}}]}
    with pytest.raises(Refused, match=r"metrics\[0\]\.resource\.name: Required value"):
        hand.create(wanted)


def test_the_schema_of_a_metric_is_this_servers(hand: Hand):
    schemas = hand.call("GET", "/openapi/v3/apis/autoscaling/v2")["components"]["schemas"]
    assert crd.strip_part(schemas, "io.k8s.api.autoscaling.v2.MetricSpec") == crd.METRIC_SCHEMA


def test_bounds_the_wrong_way_round_are_refused(hand: Hand):
    with pytest.raises(Refused, match="must be no more than maxReplicas"):
        hand.create(elastic("wrong", [CPU], minReplicas=3, maxReplicas=2))
