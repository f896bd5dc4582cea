"""The commands of the tutorial, and those that the tutorials of the field have, word for word."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.commands import ROOT, blocks
from docs.session import Session
from support.kubectl import PATIENCE, Kubectl
from support.user_client import eventually
from testbed import docker, images
from testbed.binaries import binary

from .engine_images import loaded

EXAMPLES = ROOT / "examples"
TUTORIALS = [
    ("tfjob", "distributed-tensorflow-job", "tensorflow", "distributed-tensorflow-job-worker-0"),
    ("pytorchjob", "distributed-pytorch-job", "pytorch", "distributed-pytorch-job-master-0"),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name", "folder", "speaker"), TUTORIALS, ids=["tensorflow", "pytorch"])
def test_the_tutorials_commands_tell_the_story(
    kind: str, name: str, folder: str, speaker: str, kubectl: Callable[..., str]
) -> None:
    created = kubectl("create", "-f", str(EXAMPLES / folder / f"{name}.yaml"))
    assert f"{kind}.kubeflow.org/{name} created" in created
    eventually(lambda: kubectl("get", kind).splitlines()[-1].split()[1:2] == ["Running"], PATIENCE, every=0.5)
    log = follow(speaker, kubectl)
    assert log.strip(), "the log was empty"
    eventually(lambda: kubectl("get", kind).splitlines()[-1].split()[1:2] == ["Succeeded"], PATIENCE, every=0.5)
    assert kubectl("get", kind).splitlines()[0].split() == ["NAME", "STATE", "AGE"]
    description = kubectl("describe", kind, name)
    for word in ("Succeeded", "Running", "Created pod:", "SuccessfulCreateService", f"{name} is created."):
        assert word in description, description
    assert f'{kind}.kubeflow.org "{name}" deleted' in kubectl("delete", kind, name)
    eventually(lambda: not kubectl("get", "pods", "-o", "name").strip(), PATIENCE, every=0.5)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_tutorial_goes_as_its_page_says(kubeconfig: str, kubectl: Kubectl, tmp_path: Path) -> None:
    programs = [binary("kube", "kubectl"), ROOT / ".venv" / "bin" / "trainshed"]
    found = blocks((ROOT / "docs" / "tutorial.md").read_text())
    assert all(block.needs for block in found)
    with loaded([images.PYTORCH], tmp_path):
        shell = Session(tmp_path, Path(kubeconfig), kubectl.command[-1], programs, environment=docker.environment())
        for block in found:
            shell.run(block)


def follow(pod: str, kubectl: Callable[..., str]) -> str:
    """Return the output of `kubectl logs -f` until the pod ends, even before its container has started."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        reader: subprocess.Popen[str] = kubectl.follow("logs", "-f", pod)  # type: ignore[attr-defined]
        out, _ = reader.communicate(timeout=180)
        if reader.returncode == 0:
            return out
        time.sleep(1)
    raise AssertionError(f"no log of {pod}")
