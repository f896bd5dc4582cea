"""`make demo-cluster` on a new machine, with stubs for the steps that take minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.stubs import programs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without caches and home, whose compiler and engine are stubs that write down."""
    shelf = programs(tmp_path)
    places = {"HOME": tmp_path, "TRAINSHED_CACHE": tmp_path / "cache", "TRAINSHED_STATE": tmp_path / "state"}
    kept = {name: os.environ[name] for name in ("LANG", "PYTHONPATH") if name in os.environ}
    return kept | {name: str(value) for name, value in places.items()} | {"PATH": f"{shelf}:{os.environ['PATH']}"}


def test_the_demo_runs_to_its_end(machine: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "demo-cluster"], cwd=ROOT, env=machine, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Both jobs have trained." in done.stdout
    said = (tmp_path / "said").read_text()
    for program in ("kubectl", "helm", "kind"):
        assert f"go build {program}" in said
    assert "kind create cluster --name trainshed-dev" in said
    assert "docker build" in said
    assert "helm --kubeconfig" in said
    # Whatever the two jobs do not need is not made.
    assert [word for word in ("jax", "paddle", "xgboost", "debootstrap", "etcd", "kubelet") if word in said] == []


def test_without_a_registry_the_image_of_the_nodes_is_made_from_parts(machine: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed", "up"]
    environment = machine | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'hack'}", "STUB_REGISTRY": "no"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = (tmp_path / "said").read_text()
    assert "kind build node-image --type=file" in said
    assert "kind create cluster" in said
    assert "--image trainshed.dev/kind-node:" in said
    for program in ("kubelet", "kubeadm", "containerd", "crictl", "coredns", "local-path-provisioner"):
        assert f"go build {program}" in said
    assert (tmp_path / "state" / "registry").read_text() == "no"


def test_down_without_a_cluster_builds_nothing(machine: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed", "down"]
    environment = machine | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'hack'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "go build" not in (tmp_path / "said").read_text()
