"""`trainshed crds`: the definitions, for kubectl."""

from __future__ import annotations

import yaml
from click.testing import CliRunner

from trainshed.cli import cli


def test_all_kinds_are_printed():
    result = CliRunner().invoke(cli, ["crds"])
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(result.stdout)]
    assert names == ["tfjobs.kubeflow.org", "pytorchjobs.kubeflow.org"]
