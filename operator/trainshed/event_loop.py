"""The event loop of the operator."""

from __future__ import annotations

import socket
from typing import Any

import uvloop


class EventLoop(uvloop.Loop):
    """An event loop that detaches the Python socket from each connection that is made from it.

    In uvloop 0.23, a connection that is lost during its TLS handshake is closed twice: by uvloop, and by the Python
    socket when it is garbage-collected. By then, the file descriptor may belong to another connection, which stalls,
    fails, or ends the process. MagicStack/uvloop issues 645 and 738 fixed only handshakes that are cancelled.
    """

    async def create_connection(
        self,
        *args: Any,  # noqa: ANN401
        sock: socket.socket | None = None,
        **options: Any,  # noqa: ANN401 - asyncio's own, and long
    ) -> Any:  # noqa: ANN401
        """Create a connection as asyncio does, and detach `sock` afterwards, also on errors."""
        try:
            return await super().create_connection(*args, sock=sock, **options)
        finally:
            if sock is not None:
                sock.detach()
