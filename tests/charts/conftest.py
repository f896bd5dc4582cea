"""Helm, for the tests that render the chart."""

from __future__ import annotations

import shutil

import pytest

from bed.binaries import binary, folder


@pytest.fixture(scope="session")
def helm() -> None:
    """Both versions are there, built if need be: minutes, once. Only a machine without Go goes on without them."""
    for version in ("helm3", "helm4"):
        if not (folder(version) / "helm").exists() and not shutil.which("go"):
            pytest.skip("there is no helm, and no Go to build it")
        binary(version, "helm")
