"""uvloop's event loop with one mend: the number of a connection that is closed is not closed once more."""

from __future__ import annotations

import socket
from typing import Any

import uvloop


class EventLoop(uvloop.Loop):
    """Whatever becomes of a connection that is made from a Python socket, that socket is out of it from then on.

    uvloop 0.23 leaves a connection that is lost in the middle of its TLS handshake to be closed by two: by itself, and
    by the Python socket when that is forgotten. The number may be another connection's by then, which falls silent,
    fails, or ends the process. What MagicStack/uvloop issues 645 and 738 mended is a handshake that is broken off.
    """

    async def create_connection(
        self,
        *args: Any,  # noqa: ANN401
        sock: socket.socket | None = None,
        **options: Any,  # noqa: ANN401 - asyncio's own, and long
    ) -> Any:  # noqa: ANN401
        """As asyncio's, but that `sock` is detached afterwards, also on errors."""
        try:
            return await super().create_connection(*args, sock=sock, **options)
        finally:
            if sock is not None:
                sock.detach()
