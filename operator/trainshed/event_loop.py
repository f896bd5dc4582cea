"""The event loop of the operator."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextvars import Context
from typing import Any

import uvloop

#: Seconds below which uvloop makes no timer.
LEAST_DELAY = 0.001


class EventLoop(uvloop.Loop):
    """An event loop that detaches the Python socket from each connection that is made from it, and makes real timers.

    In uvloop 0.23, a connection that is lost during its TLS handshake is closed twice: by uvloop, and by the Python
    socket when it is garbage-collected. By then, the file descriptor may belong to another connection, which stalls,
    fails, or ends the process. MagicStack/uvloop issues 645 and 738 fixed only handshakes that are cancelled.
    """

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call a function after `delay` seconds, and return a timer with `when()`, as asyncio promises.

        In uvloop 0.23, what is due within half a millisecond, or was before, has a handle without it. `call_at` of
        uvloop calls this.
        """
        return super().call_later(max(delay, LEAST_DELAY), callback, *args, context=context)

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
