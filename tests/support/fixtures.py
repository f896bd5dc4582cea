"""Fixtures of the tests on an API server; a conftest.py imports those that its folder needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.control_plane import ControlPlane

from .fake_kubelet import FakeKubelet
from .operator import Operator, Operators
from .planes import ready_control_plane
from .user_client import UserClient


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests that leave it intact."""
    with ready_control_plane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def second_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A second control plane, which tests of several folders share.

    An operator there manages one namespace, which is its own. Who changes more than that, or stops the API server,
    repairs it. Starting one takes eleven seconds of a processor.
    """
    with ready_control_plane(tmp_path_factory.mktemp("second-server")) as plane:
        yield plane


@pytest.fixture(scope="package")
def shared_operator(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests that leave it intact; at the end its log has no traceback."""
    operator = Operator(server.kubeconfig, tmp_path_factory.mktemp("operator"), "--no-leader-elect").start()
    yield operator
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture
def user(server: ControlPlane) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(server.kubeconfig)


@pytest.fixture
def second_user(second_server: ControlPlane) -> UserClient:
    """A user of the second control plane, in a namespace that only the test's own operator manages."""
    return UserClient.somewhere(second_server.kubeconfig)


@pytest.fixture
def operators(tmp_path: Path) -> Iterator[Operators]:
    """Starts operators, and kills them at the end."""
    operators = Operators(tmp_path)
    yield operators
    operators.end()


@pytest.fixture
def kubelet(user: UserClient) -> Iterator[FakeKubelet]:
    """The namespace's pods run as soon as they are created."""
    with FakeKubelet(user) as kubelet:
        yield kubelet
