"""The quick start's way without Helm, as far as an API server goes: everything of it is applied, and again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.session import Session, walk
from testbed.binaries import binary
from testbed.control_plane import ControlPlane


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """An empty control plane."""
    with ControlPlane(tmp_path / "plane") as plane:
        yield plane


def test_the_page_about_installation_without_helm_works(plane: ControlPlane, tmp_path: Path) -> None:
    session = Session(tmp_path, plane.kubeconfig, "default", (binary("kube", "kubectl"),))
    assert len(list(walk(session, "apiserver"))) == 1
    assert len(list(walk(session, "apiserver"))) == 1
