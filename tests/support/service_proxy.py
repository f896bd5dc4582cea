"""A proxy through which an API server without a cluster network reaches Services: their backends run on this machine.

The API server asks it with CONNECT for a Service's cluster IP and port; an EgressSelectorConfiguration names its
socket. So webhooks and aggregated APIs of a program beside the control plane are as its own manifests have them.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from testbed.places import written

from .background import in_background

PIECE = 65536
EGRESS = """apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {{uds: {{udsName: {socket}}}}}
"""


class ServiceProxy:
    """Listens on a Unix socket in `folder` and at `url`; `backends` are local ports by `cluster-ip:port`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.backends: dict[str, int] = {}
        self._socket = folder / "services.sock"
        self._config = written(folder / "egress.yaml", EGRESS.format(socket=self._socket))

    @classmethod
    def start(cls, folder: Path) -> AbstractContextManager[Self]:
        """One in the background."""
        return in_background(cls(folder))

    @property
    def flag(self) -> str:
        """The flag with which an API server uses it."""
        return f"--egress-selector-config-file={self._config}"

    async def __aenter__(self) -> Self:
        self._servers = (
            await asyncio.start_unix_server(self._connected, self._socket),
            await asyncio.start_server(self._connected, "127.0.0.1", 0),
        )
        self.url = f"http://127.0.0.1:{self._servers[1].sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            port = self.backends.get(request.split()[1])
            if port is None:
                writer.write(b"HTTP/1.1 502 no such Service\r\n\r\n")
                await writer.drain()
            else:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                ends.append(far_writer)
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))
        for end in ends:
            end.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()
