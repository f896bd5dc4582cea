"""A real control plane with the CRDs, to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane


@contextmanager
def comparable_control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane with the CRDs and the garbage collector, whose API server has been restarted.

    An API server that began with an empty store can watch from version 1, which is too old for any other.
    """
    with ready_control_plane(folder) as plane:
        plane.stop_apiserver()
        plane.start_apiserver()
        yield plane


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that only these tests use."""
    with comparable_control_plane(tmp_path_factory.mktemp("differential")) as plane:
        yield plane
