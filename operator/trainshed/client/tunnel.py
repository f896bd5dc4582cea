"""Opens a connection through an HTTP proxy, with the method CONNECT (RFC 9110, 9.3.6)."""

from __future__ import annotations

import asyncio
import base64
import socket
from contextlib import ExitStack
from urllib.parse import SplitResult, unquote, urlsplit

#: The bytes that the head of a proxy's response may have.
LONGEST = 16 * 1024


async def open_tunnel(proxy: str, host: str, port: int) -> socket.socket:
    """Return a socket whose other end is host:port, by way of the proxy at this URL; raises OSError."""
    address, loop = urlsplit(proxy), asyncio.get_running_loop()
    where = address.hostname or "", address.port or 80
    family, kind, protocol, _, target = (await loop.getaddrinfo(*where, type=socket.SOCK_STREAM))[0]
    found = socket.socket(family, kind, protocol)
    with ExitStack() as failed:
        failed.callback(found.close)
        found.settimeout(0)
        await loop.sock_connect(found, target)
        await _connect(found, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", address)
        failed.pop_all()
    return found


async def _connect(proxy: socket.socket, target: str, address: SplitResult) -> None:
    """Ask the proxy for a connection to the target; raises OSError if it refuses."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(proxy, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_login(address)}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = await loop.sock_recv(proxy, LONGEST)
        head += piece
        if not piece or len(head) > LONGEST:
            raise ConnectionError(f"the proxy {address.hostname} does not answer in HTTP")
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split(" ")[1:2] != ["200"]:
        raise ConnectionError(f"the proxy {address.hostname} refuses the connection: {status[:100]!r}")


def _login(address: SplitResult) -> str:
    if not address.username:
        return ""
    login = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n"
