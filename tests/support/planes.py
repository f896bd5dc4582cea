"""Control planes with the project's CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.control_plane import ControlPlane

from .kubectl import kubectl_file
from .user_client import KINDS, UserClient, eventually

CRDS = Path(__file__).parents[2] / "crds"
#: The path of MPIJobs of v2beta1.
V2BETA1 = "/apis/kubeflow.org/v2beta1"


@contextmanager
def ready_control_plane(
    folder: Path, *flags: str, audit: bool = True, controller_flags: tuple[str, ...] = ()
) -> Iterator[ControlPlane]:
    """Start an API server with more flags, its controllers (garbage collection, quota, namespaces) and the CRDs."""
    plane = ControlPlane(folder, controllers=True, audit=audit)
    plane.extra_flags, plane.extra_controller_flags = flags, controller_flags
    with plane:
        kubectl_file(plane, "apply", CRDS)
        user = UserClient(plane.kubeconfig, "default")
        eventually(lambda: all(user.serves(user.path(kind, "")) for kind in KINDS), 60)
        yield plane


def change_to_v2beta1(plane: ControlPlane) -> None:
    """Replace v1's MPIJob by that of v2beta1, as docs/kinds/mpijob.md says."""
    kubectl_file(plane, "delete", CRDS / "kubeflow.org_mpijobs.yaml")
    kubectl_file(plane, "apply", CRDS / "v2beta1")
    user = UserClient(plane.kubeconfig, "default", V2BETA1)
    eventually(lambda: user.serves(user.path("MPIJob", "")), 30)
