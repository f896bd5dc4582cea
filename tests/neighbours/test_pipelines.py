"""The component of Kubeflow Pipelines on the page, run by the local runner of kfp beside a real API server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import how_to
from docs.commands import ROOT
from support.fake_kubelet import FakeKubelet, Times
from support.jobs import job
from support.user_client import UserClient

pytestmark = pytest.mark.long  # its packages have an environment of their own
PYTHON = ROOT / ".venv-kfp" / "bin" / "python"
#: Runs the component in a process of its own, with the packages that are there.
MAIN = """
import json, sys
from kfp import local
local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=sys.argv[1])
print("the output is", train(job=json.loads(sys.argv[2])).output)
"""
#: What the page installs into the container of the component, and what downloads nothing.
INSTALLED, HERE = 'packages_to_install=["trainshed"]', "packages_to_install=[], install_kfp_package=False"


@pytest.mark.parametrize(("code", "state"), [(0, "Succeeded"), (3, "Failed")])
def test_the_component_ends_as_its_job_does(bed, operator, tmp_path: Path, code: int, state: str):
    assert PYTHON.exists(), "make .venv-kfp/.ready"
    (component,) = how_to.code(ROOT / "docs" / "tools.md", "python")
    assert INSTALLED in component
    (tmp_path / "component.py").write_text(component.replace(INSTALLED, HERE) + MAIN)
    command = tmp_path / "bin" / "trainshed"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trainshed "$@"\n')
    command.chmod(0o755)
    user = UserClient.somewhere(bed.kubeconfig)
    body = job("PyTorchJob", "mnist", Master=1, Worker=1)
    body["metadata"]["namespace"] = user.namespace
    path = os.pathsep.join((str(command.parent), str(PYTHON.parent), os.environ["PATH"]))
    assert shutil.which("trainshed", path=path) == str(command)
    with FakeKubelet(user, lambda _: Times(runs=1, code=code)):
        done = subprocess.run(
            [PYTHON, "component.py", str(tmp_path / "outputs"), json.dumps(body)],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "KUBECONFIG": str(bed.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    said = done.stdout + done.stderr
    assert user.state("PyTorchJob", "mnist") == state, said
    assert (done.returncode == 0, "the output is mnist" in said) == (code == 0, code == 0), said
    assert ("RuntimeError: PyTorchJob" in said and "exited with code 3" in said) == (code != 0), said
