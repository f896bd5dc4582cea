"""`trainshed crds` prints the files of crds/."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from trainshed.cli import cli
from trainshed.frameworks import FRAMEWORKS

CRDS = Path(__file__).parents[3] / "crds"


def documents(text: str) -> list[dict]:
    """Return the documents of a text, by libyaml: the definitions are long."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


@pytest.mark.slow
def test_the_printed_definitions_are_those_of_the_files():
    result = CliRunner().invoke(cli, ["crds"])
    printed = {found["metadata"]["name"]: found for found in documents(result.stdout)}
    files = [found for path in CRDS.glob("*.yaml") for found in documents(path.read_text())]
    assert printed == {found["metadata"]["name"]: found for found in files}
    assert len(printed) == len(FRAMEWORKS)


@pytest.mark.slow
def test_v2beta1_of_mpijob_replaces_v1():
    result = CliRunner().invoke(cli, ["crds", "--mpi-version", "v2beta1"])
    printed = {found["metadata"]["name"]: found for found in documents(result.stdout)}
    (newer,) = (found for path in CRDS.glob("v2beta1/*.yaml") for found in documents(path.read_text()))
    assert printed["mpijobs.kubeflow.org"] == newer
    assert [version["name"] for version in newer["spec"]["versions"]] == ["v2beta1"]
    assert len(printed) == len(FRAMEWORKS)


def test_ctrl_c_ends_a_command_with_130_also_while_it_is_imported(monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trainshed.cli.import_module", interrupted)
    result = CliRunner().invoke(cli, ["run", "-f", "a.yaml"])
    assert (result.exit_code, result.output) == (130, "")


def test_the_version_of_the_package_is_printed():
    assert CliRunner().invoke(cli, ["--version"]).stdout.endswith(f", version {version('trainshed')}\n")
