"""A real API server, and a namespace for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.fixtures import user
from testbed.control_plane import ControlPlane
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.transport import RestClient

__all__ = ["gateway", "rest", "user"]


@pytest.fixture(scope="package")
def server(second_server: ControlPlane) -> ControlPlane:
    """The control plane on which no operator manages the namespaces of these tests."""
    return second_server


@pytest_asyncio.fixture
async def rest(server: ControlPlane) -> AsyncIterator[RestClient]:
    """Yield a connection to the server, and close it afterwards."""
    rest = RestClient(HttpTransport(find_credentials(str(server.kubeconfig))))
    yield rest
    await rest.close()


@pytest.fixture
def gateway(rest: RestClient) -> ApiClient:
    """Return a client of the server."""
    return ApiClient(rest, TokenBucket())
