"""One API server for tests that leave it intact, with an operator at log level debug, and one for those that do not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support import Operator, Operators, UserClient
from support.fixtures import kubelet, operators, server, user
from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane
from trainshed.event_loop import EventLoop

from .run import Environment
from .run import environment as environment_on

__all__ = ["environment", "kubelet", "operator", "operators", "server", "user"]

#: The operator's user and groups, which tell its requests from all others.
USER, GROUPS = "trainshed", ("system:masters",)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], EventLoop]]:
    """Run async tests in the operator's event loop."""
    return {"uvloop": EventLoop}


@pytest.fixture(scope="package")
def operator(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests that leave it intact; at the end it runs, and its log has no traceback."""
    flags = ("--no-leader-elect", "--log-level=debug", "--log-format=json")
    operator = Operator(server.kubeconfig_for(USER, GROUPS), tmp_path_factory.mktemp("operator"), *flags).start()
    yield operator
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture(scope="package")
def second_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that tests may break if they repair it; no operator manages its jobs."""
    with ready_control_plane(tmp_path_factory.mktemp("second-server")) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(
    second_server: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environment]:
    """The control plane and the processes that all runs of a module share."""
    async with environment_on(second_server, tmp_path_factory.mktemp("runs")) as found:
        yield found


@pytest.fixture
def second_user(second_server: ControlPlane) -> UserClient:
    """A user in a namespace of its own, there."""
    return UserClient.somewhere(second_server.kubeconfig)


@pytest.fixture
def begin(second_server: ControlPlane, second_user: UserClient, operators: Operators) -> Callable[..., Operator]:
    """Starts operators there that manage the one namespace, each with flags of its own."""

    def begin(*flags: str, kubeconfig: Path | None = None, **how: Any) -> Operator:
        known = kubeconfig or second_server.kubeconfig_for(USER, GROUPS)
        return operators.begin(known, f"--namespace={second_user.namespace}", *(flags or ("--no-leader-elect",)), **how)

    return begin
