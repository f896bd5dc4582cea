"""`trainshed render` reports what the API server refuses by the schema or by the policy on annotations."""

from __future__ import annotations

import copy

import pytest
from click.testing import CliRunner

from support.bad_jobs import GOOD
from support.invalid_names import BAD_ANNOTATIONS, GOOD_ANNOTATIONS, UNKNOWN_FIELDS, WRONG_TYPES, foreign
from support.jobs import tfjob
from trainshed.api.framework import JobDefaults
from trainshed.cli import cli
from trainshed.manifests import writer
from trainshed.rendering import rendered


def reported(job: dict) -> str:
    """The report on a job that is refused."""
    result = CliRunner().invoke(cli, ["render", "-f", "-"], input=writer.write([job]))
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def accepted(job: dict) -> bool:
    return CliRunner().invoke(cli, ["render", "-f", "-"], input=writer.write([job])).exit_code == 0


@pytest.mark.parametrize(("job", "path", "meant"), UNKNOWN_FIELDS, ids=[case[1] for case in UNKNOWN_FIELDS])
def test_an_unknown_field_is_reported_with_what_was_meant(job: dict, path: str, meant: str):
    hint = f"; did you mean {meant}?" if meant else ""
    assert f"{job['kind']} a: {path}: unknown field{hint}\n" in reported(job)


@pytest.mark.parametrize(("job", "path"), WRONG_TYPES, ids=[case[1] for case in WRONG_TYPES])
def test_a_wrong_type_is_reported(job: dict, path: str):
    assert f"TFJob a: {path}" in reported(job)


@pytest.mark.parametrize(("job", "words"), BAD_ANNOTATIONS, ids=[case[1][:60] for case in BAD_ANNOTATIONS])
def test_a_bad_annotation_is_reported(job: dict, words: str):
    assert words in reported(job)


def test_a_null_is_no_item_of_a_list_and_a_field_that_is_left_out():
    job = tfjob("a", Worker=1)
    template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template.update(metadata={"labels": {"team": None}, "annotations": None})
    container = template["spec"]["containers"][0]
    container.update(env=None, args=["x"], resources={"limits": None})
    objects = rendered(job, "ml", JobDefaults())
    (pod,) = [item for item in objects if item["kind"] == "Pod"]
    assert "team" not in pod["metadata"]["labels"]
    container.update(env=[{"name": "A"}, None], args=["x", None])
    for part in ("env[1]", "args[1]"):
        assert f"containers[0].{part}: Invalid value: null: must be of type" in reported(job)


def test_a_misspelt_annotation_is_reported_with_what_was_meant():
    assert "; did you mean trainshed.dev/restart-scope?\n" in reported(BAD_ANNOTATIONS[0][0])


@pytest.mark.parametrize("job", [*GOOD_ANNOTATIONS, foreign()], ids=lambda job: str(job["metadata"]["annotations"]))
def test_good_annotations_are_accepted(job: dict):
    assert accepted(job)


@pytest.mark.parametrize("job", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_what_the_api_server_accepts_is_accepted(job: dict):
    assert accepted(copy.deepcopy(job))


def test_what_the_api_server_adds_is_no_mistake():
    job = tfjob("a", Worker=1) | {"status": {"conditions": [], "startTime": "2026-01-01T00:00:00Z"}}
    job["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1, "managedFields": [{"manager": "kubectl"}]}
    assert accepted(job)
    job["status"]["news"] = 1
    assert "status.news: unknown field" in reported(job)
