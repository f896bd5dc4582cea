"""A real API server, and a namespace for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bed.control_plane import ControlPlane
from rig.fixtures import hand, server
from trainshed.cluster.credentials import find
from trainshed.cluster.gateway import Gateway
from trainshed.cluster.lanes import Pace
from trainshed.cluster.transport import Sockets
from trainshed.cluster.wire import Wire

__all__ = ["gateway", "hand", "server", "wire"]


@pytest_asyncio.fixture
async def wire(server: ControlPlane) -> AsyncIterator[Wire]:
    """Yield a connection to the server, and close it afterwards."""
    wire = Wire(Sockets(find(str(server.kubeconfig))))
    yield wire
    await wire.close()


@pytest.fixture
def gateway(wire: Wire) -> Gateway:
    """Return a client of the server."""
    return Gateway(wire, Pace())
