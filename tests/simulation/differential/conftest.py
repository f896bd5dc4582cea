"""A real control plane to compare with, one for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.control_plane import ControlPlane

from .ground import ground


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Nobody else uses it."""
    with ground(tmp_path_factory.mktemp("likeness")) as plane:
        yield plane
