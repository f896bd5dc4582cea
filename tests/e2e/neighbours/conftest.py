"""Neighbours such as Kueue and Volcano on the kind cluster, as their Deployments, beside jobs with real containers.

They take minutes to build, so `make test` leaves these tests out: `make test-neighbours-e2e`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.kubectl import Kubectl
from support.release import HOME, NAME, Helm
from testbed import kind
from testbed.images import PYTHON

from .deployments import rolled_out
from .node_gangs import NodeGangCluster, room_for_four


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    """The kubeconfig of the test bed, with the image of these jobs only."""
    assert kind.exists(), "the test bed is not up: make test-neighbours-e2e"
    kind.load([PYTHON])
    return str(kind.kubeconfig())


@pytest.fixture(scope="module")
def operator_with(
    kubeconfig: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], AbstractContextManager[None]]:
    """Upgrades the operator's release with `name=value` of its chart; at the end it has its former values."""
    helm, kubectl = Helm(4, kubeconfig), Kubectl(kubeconfig, HOME)

    @contextmanager
    def upgraded(value: str) -> Iterator[None]:
        former = tmp_path_factory.mktemp("release") / "values.json"
        former.write_text(helm.values())
        try:
            helm.upgrade(former, value)
            rolled_out(kubectl, f"deployment/{NAME}")
            yield
        finally:
            helm.upgrade(former)
            rolled_out(kubectl, f"deployment/{NAME}")

    return upgraded


@pytest.fixture(scope="module")
def scheduler(
    request: pytest.FixtureRequest,
    kubeconfig: str,
    operator_with: Callable[[str], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The file's scheduler, which INSTALLED installs on the cluster; SCHEDULER names it to the operator."""
    installed, name = request.module.INSTALLED, request.module.SCHEDULER
    with installed(kubeconfig, tmp_path_factory.mktemp("scheduler")), operator_with(f"gangScheduler={name}"):
        yield


@pytest.fixture
def why() -> str:
    """What `Blocked` says of a gang that does not fit while its pods wait for nodes."""
    return "Unschedulable: 5 of 5 replicas are not running"


@pytest.fixture(scope="module")
def room(kubeconfig: str) -> Iterator[None]:
    """Room for four pods of gangs on the nodes."""
    with room_for_four(Kubectl(kubeconfig)):
        yield


@pytest.fixture
def gang(request: pytest.FixtureRequest, kubeconfig: str, room: None, scheduler: None) -> Iterator[NodeGangCluster]:
    """A user's jobs; GROUPS of the file is the API version of the PodGroups of its `scheduler`."""
    with NodeGangCluster(Path(kubeconfig), request.module.GROUPS) as cluster:
        yield cluster
