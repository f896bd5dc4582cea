"""The definitions of our kinds."""

from __future__ import annotations

import json

import pytest

from trainshed.crd import definition
from trainshed.frameworks import FRAMEWORKS, served
from trainshed.frameworks.tensorflow import TENSORFLOW


def version(framework):
    return definition(framework)["spec"]["versions"][0]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, *served("v2beta1")[-1:]], ids=lambda framework: framework.kind)
def test_a_definition_is_small_enough_for_plain_kubectl_apply(framework):
    assert len(json.dumps(definition(framework))) < 100_000


def test_names_are_v1s():
    assert definition(TENSORFLOW)["spec"]["names"] == {
        "kind": "TFJob",
        "listKind": "TFJobList",
        "plural": "tfjobs",
        "singular": "tfjob",
    }


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.kind)
def test_pytorch_paddle_and_jax_scale_by_their_workers(framework):
    scale = {
        "specReplicasPath": f".spec.{framework.field}.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }
    scales = framework.kind in ("PyTorchJob", "PaddleJob", "JAXJob")
    assert version(framework)["subresources"] == {"status": {}} | ({"scale": scale} if scales else {})


def test_columns_are_v1s_and_ours_are_wide():
    columns = version(TENSORFLOW)["additionalPrinterColumns"]
    assert [column["name"] for column in columns if "priority" not in column] == ["State", "Age"]
    assert [column["name"] for column in columns if "priority" in column] == ["Ready", "Restarts", "Reason", "Failure"]


def test_a_missing_run_policy_is_an_empty_one():
    spec = version(TENSORFLOW)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["runPolicy"]["default"] == {}
    assert spec["properties"]["runPolicy"]["properties"]["suspend"] == {"type": "boolean", "default": False}
    assert spec["required"] == ["tfReplicaSpecs"]


@pytest.mark.parametrize("kind", ["PyTorchJob", "PaddleJob"])
def test_the_metrics_of_an_elastic_policy_are_described(kind):
    framework = next(framework for framework in FRAMEWORKS if framework.kind == kind)
    spec = version(framework)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    items = spec["elasticPolicy"]["properties"]["metrics"]["items"]
    assert {"type", "resource"} <= set(items["properties"])


def test_what_we_do_not_describe_is_kept():
    status = version(TENSORFLOW)["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    selector = status["replicaStatuses"]["additionalProperties"]["properties"]["labelSelector"]
    assert selector == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
