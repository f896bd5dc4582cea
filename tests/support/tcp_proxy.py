"""TCP proxies: one adds latency, limits the bandwidth, freezes, or connects to another server; one leads to Services.

TLS passes unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Self

import yaml

from testbed.places import written

from .background import InBackground

#: The number of bytes that are read at once.
PIECE = 16384
EGRESS = """apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {{uds: {{udsName: {socket}}}}}
"""


class TcpProxy(InBackground):
    """Listens on a port of its own and forwards to `target`.

    Everything arrives `delay` seconds late, and at most `rate` bytes a second pass both ways together, unless it is 0.
    While it is `frozen` nothing passes, and nothing is lost.
    """

    def __init__(self, target: int, *, delay: float = 0, rate: float = 0) -> None:
        self.target = target
        self.delay = delay
        self.rate = rate
        self.frozen = False
        self.passed = 0
        self._free = 0.0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def cut(self) -> None:
        """Abort all connections; from any thread."""
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in self._writers])

    def kubeconfig(self, original: Path, folder: Path, host: str = "127.0.0.1") -> Path:
        """A copy of a kubeconfig that leads through this proxy."""
        config = yaml.safe_load(original.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://{host}:{self.port}"
        path = folder / "tcp-proxy.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    async def _find(self, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        """Return the port of the server, and what the client gets once it is connected."""
        return self.target, b""

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        try:
            port, greeting = await self._find(reader, writer)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            ends.add(far_writer)
            self._writers |= ends
            writer.write(greeting)
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # no server there, or the test is over: the caller sees that at once
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arrival = asyncio.create_task(self._deliver(under_way, writer))
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                under_way.put_nowait((self._loop.time() + self.delay, piece))
        under_way.put_nowait((self._loop.time() + self.delay, b""))
        await arrival

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, piece = await under_way.get()
                if self.rate:
                    self._free = max(self._free, self._loop.time()) + len(piece) / self.rate
                    due = max(due, self._free)
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                while self.frozen:
                    await asyncio.sleep(0.05)
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                self.passed += len(piece)
                await writer.drain()


class ServiceProxy(TcpProxy):
    """Through it an API server without a cluster network reaches Services, whose backends run on this machine.

    The API server asks with CONNECT for a Service's cluster IP and port, at a Unix socket in `folder` or at `url`;
    `backends` are local ports by `cluster-ip:port`. So webhooks and aggregated APIs of a program beside the control
    plane are as its own manifests have them.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(0)
        folder.mkdir(parents=True, exist_ok=True)
        self.backends: dict[str, int] = {}
        self._socket = folder / "services.sock"
        self._config = written(folder / "egress.yaml", EGRESS.format(socket=self._socket))

    async def __aenter__(self) -> Self:
        self._socket_server = await asyncio.start_unix_server(self._connected, self._socket)
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        self._socket_server.close()
        await super().__aexit__()

    @property
    def flag(self) -> str:
        """The flag with which an API server uses it."""
        return f"--egress-selector-config-file={self._config}"

    @property
    def url(self) -> str:
        """The address at which others may ask it."""
        return f"http://127.0.0.1:{self.port}"

    async def _find(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        port = self.backends.get(request.split()[1])
        if port is None:
            writer.write(b"HTTP/1.1 502 no such Service\r\n\r\n")
            await writer.drain()
            raise ConnectionRefusedError
        return port, b"HTTP/1.1 200 OK\r\n\r\n"
