"""A real control plane to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane


@contextmanager
def ground(folder: Path) -> Iterator[ControlPlane]:
    """With our CRDs, and the controllers that sweep; its API server knows nothing of the first versions any more.

    One that has begun with an empty store can tell everything since version 1, which is too old for any other.
    """
    with ready_control_plane(folder) as plane:
        plane.stop_apiserver()
        plane.start_apiserver()
        yield plane
