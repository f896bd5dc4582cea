"""A real API server with the CRDs and without an operator, a namespace for each test, Helm and kube-score."""

from __future__ import annotations

import shutil

import pytest

from charts.conftest import helm
from support.fixtures import user
from testbed.binaries import binary, folder
from testbed.control_plane import ControlPlane

__all__ = ["helm", "user"]


@pytest.fixture(scope="package")
def server(second_server: ControlPlane) -> ControlPlane:
    """The control plane on which no operator manages the namespaces of these tests."""
    return second_server


@pytest.fixture(scope="package")
def kube_score() -> str:
    """The program, built if need be: a minute, once. Only a machine without Go goes on without it."""
    if not (folder("kube-score") / "kube-score").exists() and not shutil.which("go"):
        pytest.skip("there is no kube-score, and no Go to build it")
    return str(binary("kube-score", "kube-score"))
