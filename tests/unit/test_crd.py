"""The CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from trainshed.api import descriptions
from trainshed.crd import definition, fields
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS, served
from trainshed.frameworks.tensorflow import TENSORFLOW

ALL = (*FRAMEWORKS, MPI_VERSIONS["v2beta1"])


def version(framework):
    return definition(framework)["spec"]["versions"][0]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, *served("v2beta1")[-1:]], ids=lambda framework: framework.kind)
def test_a_definition_is_small_enough_for_plain_kubectl_apply(framework):
    assert len(json.dumps(definition(framework))) < 110_000


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


WIDE = ["Ready", "Restarts", "Progress", "Reason", "Blocked", "Stalled", "Last Failure"]


def test_columns_are_v1s_and_ours_are_wide():
    columns = version(TENSORFLOW)["additionalPrinterColumns"]
    assert [column["name"] for column in columns if "priority" not in column] == ["State", "Age"]
    assert [column["name"] for column in columns if "priority" in column] == WIDE


def test_a_missing_run_policy_is_an_empty_one():
    spec = version(TENSORFLOW)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["runPolicy"]["default"] == {}
    suspend = spec["properties"]["runPolicy"]["properties"]["suspend"]
    assert (suspend["type"], suspend["default"]) == ("boolean", False)
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
    assert selector.pop("description")
    assert selector == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def undescribed(node: dict, path: str) -> Iterator[str]:
    """Yield the fields without a description, except those that Kubernetes describes."""
    for name, part in node.get("properties", {}).items():
        inner = f"{path}.{name}"
        if inner not in (".apiVersion", ".kind", ".metadata") and not part.get("description", "").endswith("."):
            yield inner
        if name not in ("metadata", "template", "metrics"):
            yield from undescribed(part, inner)
    for below in ("items", "additionalProperties"):
        if below in node:
            yield from undescribed(node[below], path)


@pytest.mark.parametrize("framework", ALL, ids=lambda framework: f"{framework.kind} {framework.version}")
def test_every_field_is_described(framework):
    schema = version(framework)["schema"]["openAPIV3Schema"]
    assert list(undescribed(schema, "")) == []
    assert len(list(fields(schema))) >= 68
    assert schema["description"].endswith(".")
    del schema["properties"]["spec"]["properties"]["runPolicy"]["properties"]["suspend"]["description"]
    assert list(undescribed(schema, "")) == [".spec.runPolicy.suspend"]


def test_every_description_is_of_a_field():
    used = {
        name
        for framework in ALL
        for path, _ in fields(version(framework)["schema"]["openAPIV3Schema"])
        for general in [path.replace(framework.field, "replicaSpecs")]
        for name in (general, f"{framework.kind} {general}", f"{framework.kind}/{framework.version} {general}")
    }
    assert descriptions.FIELDS.keys() - used == set()
    assert descriptions.KINDS.keys() == {framework.kind for framework in ALL}


def test_the_most_special_description_counts():
    newer = MPI_VERSIONS["v2beta1"]
    limit = [descriptions.of_field(framework, "spec.runPolicy.backoffLimit") for framework in (TENSORFLOW, newer)]
    assert [text.rpartition("Default: ")[2] for text in limit] == ["no limit.", "6."]
    template = descriptions.of_field(TENSORFLOW, "spec.tfReplicaSpecs.template")
    assert template.endswith("One container has the name tensorflow.")
    assert descriptions.of_field(newer, "spec.mpiReplicaSpecs.template").endswith("(`kubectl explain pod`).")


def test_a_field_without_a_description_is_an_error_that_says_where_to_write_it():
    with pytest.raises(KeyError, match=r"TFJob status\.news: add a description to trainshed\.api\."):
        descriptions.of_field(TENSORFLOW, "status.news")
