"""The `helm` fixture for tests that render the chart."""

from __future__ import annotations

import shutil

import pytest

from testbed.binaries import binary, folder


@pytest.fixture(scope="session")
def helm() -> None:
    """Provide both versions of Helm; the first build takes minutes. Skip the test if there is neither Helm nor Go."""
    for version in ("helm3", "helm4"):
        if not (folder(version) / "helm").exists() and not shutil.which("go"):
            pytest.skip("helm is missing, and so is Go to build it")
        binary(version, "helm")
