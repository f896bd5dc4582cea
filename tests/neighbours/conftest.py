"""A control plane with the CRDs and the operator, beside which the tests start the real programs of neighbours.

`bed` is all that a scenario knows of its cluster. Pods are played by kubelets of the tests; on a cluster with nodes
they would be real, and the scenarios the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.background import in_background
from support.fixtures import operators
from support.gang_cluster import GangCluster, SimulatedGangCluster
from support.operator import Operator, Operators
from support.planes import ready_control_plane
from support.tcp_proxy import ServiceProxy
from testbed.control_plane import ControlPlane

__all__ = ["operators"]


@dataclass(frozen=True)
class Bed:
    """A cluster for neighbours: its API server, the Services that it can reach, and a folder for logs."""

    plane: ControlPlane
    services: ServiceProxy
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.plane.kubeconfig


@contextmanager
def running_bed(folder: Path, flags: tuple[str, ...] = (), controller_flags: tuple[str, ...] = ()) -> Iterator[Bed]:
    """A control plane with more flags of the API server and of the controllers."""
    with (
        in_background(ServiceProxy(folder)) as services,
        ready_control_plane(folder / "plane", services.flag, *flags, controller_flags=controller_flags) as plane,
    ):
        yield Bed(plane, services, folder)


@pytest.fixture(scope="module")
def feature_gates() -> tuple[str, ...]:
    """More flags of the API server and, if they are feature gates, of the controllers; a file may have its own."""
    return ()


@pytest.fixture(scope="module")
def controller_flags() -> tuple[str, ...]:
    """More flags of the controllers; a file may have its own."""
    return ()


@pytest.fixture(scope="module")
def bed(
    feature_gates: tuple[str, ...], controller_flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    """A control plane for the tests of one neighbour, with the CRDs."""
    gates = tuple(flag for flag in feature_gates if flag.startswith("--feature-gates")) + controller_flags
    with running_bed(tmp_path_factory.mktemp("bed"), feature_gates, gates) as bed:
        yield bed


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    """More flags of the operator; a file of a neighbour may have its own."""
    return ()


@pytest.fixture(scope="module")
def operator(bed: Bed, operator_flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator; at the end its log has no traceback."""
    folder = tmp_path_factory.mktemp("operator")
    operator = Operator(bed.kubeconfig, folder, "--no-leader-elect", *operator_flags).start()
    yield operator
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture
def gang(request: pytest.FixtureRequest, bed: Bed, scheduler: None, operator: Operator) -> Iterator[GangCluster]:
    """A user's part of a cluster with a `scheduler`; GROUPS of the file is the API version of its PodGroups."""
    with SimulatedGangCluster(bed.kubeconfig, request.module.GROUPS) as cluster:
        yield cluster


@pytest.fixture
def without_flag(bed: Bed, gang: GangCluster, operator: Operator, operators: Operators) -> Iterator[Operator]:
    """An operator without the flag of a gang scheduler, in the place of the one with it."""
    assert operator.stop() == 0
    other = operators.begin(bed.kubeconfig, "--no-leader-elect")
    yield other
    assert other.stop() == 0
    operator.start()
