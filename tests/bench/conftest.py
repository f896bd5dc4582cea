"""A control plane with an audit log, and the operator as a user of its own, so that its requests can be identified."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import Operator, UserClient
from support.measured import USER, Measured
from support.planes import ready_control_plane


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The control plane."""
    with ready_control_plane(tmp_path_factory.mktemp("bench")) as plane:
        yield plane


@pytest.fixture(scope="session")
def measured(plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """The operator with leader election."""
    kubeconfig = plane.kubeconfig_for(USER, ("system:masters",))
    operator = Operator(kubeconfig, tmp_path_factory.mktemp("operator")).start()
    yield Measured(operator, plane.audit_log)
    operator.stop()


@pytest.fixture
def user(plane) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(plane.kubeconfig)
