"""A real API server with the CRDs, a namespace for each test, Helm and kube-score."""

from __future__ import annotations

import shutil

import pytest

from charts.conftest import helm
from support.fixtures import server, user
from testbed.binaries import binary, folder

__all__ = ["helm", "server", "user"]


@pytest.fixture(scope="package")
def kube_score() -> str:
    """The program, built if need be: a minute, once. Only a machine without Go goes on without it."""
    if not (folder("kube-score") / "kube-score").exists() and not shutil.which("go"):
        pytest.skip("there is no kube-score, and no Go to build it")
    return str(binary("kube-score", "kube-score"))
