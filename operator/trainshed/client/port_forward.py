"""Speaks with a port of a pod by way of the API server, with the right to `pods/portforward` only.

The WebSocket's sub-protocol is `v4.channel.k8s.io`: each frame begins with its channel, 0 for data and 1 for errors,
and the first frame of each channel has the port in two bytes. When the program closes the connection, the server does
so as well.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from . import ApiError, Forbidden, NotFound, Unavailable
from .credentials import Credentials, TokenSource

if TYPE_CHECKING:
    import aiohttp

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
#: The bytes of a frame, the frames of a conversation, as each takes the event loop some time however short it is, and
#: the bytes of an error that is kept.
MOST_FRAME, MOST_FRAMES, LONGEST_ERROR = 1024 * 1024, 20_000, 500
REFUSED = "connection refused"


class Dialogue(Protocol):
    """One side of a conversation: sends `opening`, then what `feed` returns, until it is `done`."""

    opening: bytes

    @property
    def done(self) -> bool:
        """Whether nothing more is wanted."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take what has arrived; return what is to be sent, empty for nothing."""
        ...


class PortForward:
    """Connects to ports of pods, each time again: that is rare."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._tokens = TokenSource(credentials)
        self._tls = credentials.tls()

    async def converse(self, pod: tuple[str, str], port: int, dialogue: Dialogue, seconds: float) -> None:
        """Speak with a port of a pod, named by namespace and name, until either side ends.

        Raises an `ApiError`, `Unavailable` after these seconds, and what the dialogue raises.
        """
        try:
            async with asyncio.timeout(seconds):
                try:
                    await self._converse(pod, port, dialogue)
                except _UnauthenticatedError:
                    if not self._tokens.renew():
                        raise
                    await self._converse(pod, port, dialogue)
        except _UnauthenticatedError as error:
            raise Unavailable(str(error)) from None
        except TimeoutError:
            raise Unavailable(f"port {port} of pod {pod[1]} has not answered within {seconds:.0f} s") from None

    async def _converse(self, pod: tuple[str, str], port: int, dialogue: Dialogue) -> None:
        import aiohttp  # noqa: PLC0415 - most operators forward no port

        url = (
            f"{self._credentials.server.rstrip('/')}/api/v1/namespaces/{pod[0]}/pods/{pod[1]}/portforward?ports={port}"
        )
        try:
            async with (
                aiohttp.ClientSession(headers=self._tokens.headers()) as session,
                session.ws_connect(
                    url,
                    protocols=(PROTOCOL,),
                    ssl=self._tls or True,
                    proxy=self._credentials.proxy or None,
                    max_msg_size=MOST_FRAME,
                ) as socket,
            ):
                await _speak(socket, dialogue, f"port {port} of pod {pod[1]}")
        except aiohttp.WSServerHandshakeError as error:
            raise _refusal(error.status, pod[1]) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"pods/portforward: {type(error).__name__}: {error}") from error


class _UnauthenticatedError(Exception):
    """The token was rejected; nothing was done."""


def _refusal(status: int, name: str) -> ApiError | _UnauthenticatedError:
    if status == HTTPStatus.UNAUTHORIZED:
        return _UnauthenticatedError("pods/portforward: the API server does not accept the credentials")
    if status == HTTPStatus.FORBIDDEN:
        return Forbidden("pods/portforward is forbidden: the operator has no right to get and create it")
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(f"there is no pod {name}")
    return Unavailable(f"pods/portforward: {status}")


async def _speak(socket: aiohttp.ClientWebSocketResponse, dialogue: Dialogue, what: str) -> None:
    """Carry the conversation out; raises `Unavailable` with what the server says of the port."""
    with suppress(ConnectionResetError):  # the server has said why not, and closed the connection
        await socket.send_bytes(bytes((DATA,)) + dialogue.opening)
    begun: set[int] = set()
    frames = 0
    async for message in socket:
        frames += 1
        if frames > MOST_FRAMES:
            raise Unavailable(f"{what} answers in more than {MOST_FRAMES:,} pieces")
        content = message.data if isinstance(message.data, bytes) else b""
        channel, content = (content[0], content[1:]) if content else (DATA, b"")
        if channel not in begun:
            begun.add(channel)
            content = content[2:]  # the port
        if channel == ERROR and content:
            raise Unavailable(f"{what}: {_reason(content.decode(errors='replace'))}")
        if channel == DATA and content and (reply := dialogue.feed(content)):
            await socket.send_bytes(bytes((DATA,)) + reply)
        if dialogue.done:
            return


def _reason(error: str) -> str:
    """Return an error of a kubelet without the names of its runtime, in which the reason would be lost."""
    return REFUSED if REFUSED in error else error.strip()[:LONGEST_ERROR]
