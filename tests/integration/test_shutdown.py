"""On SIGTERM the operator exits within five seconds and releases its Lease, even without an API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Operator, Operators
from support.audit_log import requests
from support.jobs import tfjob
from support.tcp_proxy import TcpProxy
from support.user_client import UserClient, always, eventually
from testbed.control_plane import ControlPlane

#: Seconds that it has, and how many pods there are to be made meanwhile: more than can be.
WITHIN, MANY = 5.0, 400


@pytest.fixture
def line(second_server: ControlPlane) -> Iterator[TcpProxy]:
    """The operator's line to the API server."""
    with TcpProxy.start(int(second_server.url.rpartition(":")[2])) as line:
        yield line


@pytest.fixture
def operator(
    second_server: ControlPlane, second_user: UserClient, line: TcpProxy, operators: Operators, tmp_path: Path
) -> Operator:
    """An operator that leads, by way of this line."""
    user = second_server.kubeconfig_for(second_user.namespace, ("system:masters",))
    flags = (f"--namespace={second_user.namespace}", f"--lease-namespace={second_user.namespace}")
    operator = operators.begin(line.kubeconfig(user, tmp_path), *flags)
    eventually(second_user.holder, 20)
    return operator


def ended(operator: Operator) -> float:
    """Return the seconds that it needs to exit after a signal."""
    began = time.monotonic()
    assert operator.stop() == 0
    return time.monotonic() - began


@pytest.mark.fault("A15")
def test_with_a_slow_server_requests_in_flight_finish_and_the_lease_is_released(
    second_server: ControlPlane, second_user: UserClient, line: TcpProxy, operator: Operator
):
    line.delay = 0.2
    second_user.create(tfjob("big", Worker=MANY))
    eventually(lambda: len(second_user.pods()) >= 20, 30)
    assert ended(operator) < WITHIN
    assert second_user.holder() == ""
    made = len(second_user.pods())
    assert made < MANY, "there was nothing left to be broken off"
    always(lambda: len(second_user.pods()) == made)
    asked = [
        request for request in requests(second_server, second_user.namespace, second_user.namespace) if request.writes
    ]
    assert asked[-1].what == "update leases", "a write followed the release of the Lease"
    assert operator.complaints() == []
    assert "not released" not in operator.log.read_text()


@pytest.mark.parametrize("how", ["silent", "away"])
def test_without_a_server_the_operator_exits_as_fast(
    second_user: UserClient, line: TcpProxy, operator: Operator, how: str
):
    second_user.create(tfjob("big", Worker=MANY))
    eventually(lambda: len(second_user.pods()) >= 5, 30)
    if how == "away":
        line.target = 1
        line.cut()
    line.frozen = True
    time.sleep(0.5)
    assert ended(operator) < WITHIN
    line.frozen = False
    assert operator.complaints() == []
