"""One API server for all tests that do it no harm, with a talkative operator, and one for those that do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import Hand, Operator, Operators
from support.fixtures import hand, operators, server, stage
from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane

__all__ = ["hand", "operator", "operators", "server", "stage"]

#: Who the operator is to the API server, so that its requests can be told from everybody else's.
USER, GROUPS = "trainshed", ("system:masters",)


@pytest.fixture(scope="package")
def operator(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests that do no harm to it, at its most talkative; at the end it is well."""
    flags = ("--no-leader-elect", "--log-level=debug", "--log-format=json")
    operator = Operator(server.kubeconfig_for(USER, GROUPS), tmp_path_factory.mktemp("operator"), *flags).start()
    yield operator
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture(scope="package")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane to which harm is done; whoever does it leaves it whole. Nobody looks after jobs there."""
    with ready_control_plane(tmp_path_factory.mktemp("frail")) as plane:
        yield plane


@pytest.fixture
def yard(frail: ControlPlane) -> Hand:
    """A user's hand in a namespace of its own, there."""
    return Hand.somewhere(frail.kubeconfig)


@pytest.fixture
def begin(frail: ControlPlane, yard: Hand, operators: Operators) -> Callable[..., Operator]:
    """Starts operators there that look after the one namespace, each with flags of its own."""

    def begin(*flags: str, kubeconfig: Path | None = None, **how: Any) -> Operator:
        known = kubeconfig or frail.kubeconfig_for(USER, GROUPS)
        return operators.begin(known, f"--namespace={yard.namespace}", *(flags or ("--no-leader-elect",)), **how)

    return begin
