"""`trainshed render`: what a job will become, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from rig.jobs import pytorchjob, tfjob
from trainshed.cli import cli

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.yaml"))


def render(*documents, flags=()):
    """The exit code, the objects, and what was complained of."""
    text = documents[0] if isinstance(documents[0], str) else yaml.safe_dump_all(documents)
    result = CliRunner().invoke(cli, ["render", "-f", "-", *flags], input=text)
    objects = list(yaml.safe_load_all(result.stdout)) if result.exit_code == 0 else []
    return result.exit_code, objects, result.stderr


def test_every_object_that_a_job_will_become_is_printed():
    code, objects, _ = render({"kind": "ConfigMap"}, tfjob("mnist", Chief=1, PS=1), pytorchjob("ddp", Master=1))
    assert code == 0
    names = [(item["kind"], item["metadata"]["name"]) for item in objects]
    assert names == [
        ("Service", "mnist-chief-0"),
        ("Service", "mnist-ps-0"),
        ("Pod", "mnist-chief-0"),
        ("Pod", "mnist-ps-0"),
        ("Service", "ddp-master-0"),
        ("Pod", "ddp-master-0"),
    ]
    assert {item["metadata"]["namespace"] for item in objects} == {"default"}


def test_a_namespace_may_be_given_for_jobs_that_name_none():
    named = tfjob("b", Worker=1)
    named["metadata"]["namespace"] = "theirs"
    _, objects, _ = render(tfjob("a", Worker=1), named, flags=["-n", "mine"])
    assert [item["metadata"]["namespace"] for item in objects] == ["mine", "mine", "theirs", "theirs"]


def test_a_big_job_has_its_config_map():
    _, objects, _ = render(tfjob("big", Worker=65))
    assert objects[0]["kind"] == "ConfigMap"


def test_what_cannot_be_is_said_and_fails():
    code, _, complaint = render(tfjob("00a", Worker=1))
    assert code == 1
    assert complaint.startswith("TFJob 00a: metadata.name: Invalid value")


@pytest.mark.parametrize(("text", "words"), [("kind: Pod", "holds no job of the kinds"), ("a: [", "is not YAML")])
def test_a_file_without_jobs_is_an_error(text, words):
    code, _, complaint = render(text)
    assert code == 1
    assert words in complaint


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_can_be_rendered(path):
    if "kind: List" in path.read_text():
        pytest.skip("a List is not a job")
    result = CliRunner().invoke(cli, ["render", "-f", str(path)])
    assert result.exit_code == 0, result.stderr
    assert "kind: Pod" in result.stdout
