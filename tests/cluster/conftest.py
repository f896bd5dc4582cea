"""A real API server for the hands, and a namespace for each test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from bed.control_plane import ControlPlane
from rig import Hand
from rig.planes import ready_control_plane
from trainshed.cluster.credentials import find
from trainshed.cluster.gateway import Gateway
from trainshed.cluster.lanes import Pace
from trainshed.cluster.wire import Wire


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests of this room."""
    with ready_control_plane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def hand(server: ControlPlane) -> Hand:
    """A user's hand in a namespace of its own."""
    hand = Hand(server.kubeconfig, f"c-{uuid.uuid4().hex[:8]}")
    hand.make_namespace()
    return hand


@pytest_asyncio.fixture
async def wire(server: ControlPlane) -> AsyncIterator[Wire]:
    """A wire to the server, closed at the end."""
    wire = Wire(find(str(server.kubeconfig)))
    yield wire
    await wire.close()


@pytest.fixture
def gateway(wire: Wire) -> Gateway:
    """The verbs."""
    return Gateway(wire, Pace())
