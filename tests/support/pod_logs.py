"""Logs of pods that tests write: a transport that serves them, and everything else by the server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from trainshed.client.transport import Answer, Request, Stream, Transport, TransportError

END = None


class PodLogs:
    """Implements `trainshed.client.transport.Transport`.

    `opened` has the path and the options of each log that was opened, `open` the number of those that are. A test puts
    pieces into `pieces` by the name of a pod; END ends the log, and an error breaks it off. A pod in `ended` writes no
    more: as with a kubelet, its log ends after what is left of it. `refusal` is the status with which all are refused.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.pieces: dict[str, asyncio.Queue[bytes | TransportError | None]] = {}
        self.opened: list[tuple[str, dict[str, str]]] = []
        self.open = self.most_open = 0
        self.refusal = 0
        self.ended: set[str] = set()

    def of(self, pod: str) -> asyncio.Queue[bytes | TransportError | None]:
        return self.pieces.setdefault(pod, asyncio.Queue())

    def end(self, pod: str) -> None:
        """End the log of a pod that has ended."""
        self.ended.add(pod)
        self.of(pod).put_nowait(END)

    async def exchange(self, request: Request) -> Answer:
        return await self._transport.exchange(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Serve a log, or pass a watch on."""
        *_, pod, last = str(request.path).split("/")
        if last != "log":
            async with self._transport.stream(request) as found:
                yield found
            return
        self.opened.append((pod, dict(request.query)))
        if self.refusal:
            yield Answer(self.refusal, b'{"reason":"Forbidden","message":"pods is forbidden"}'), self._read(pod, {})
            return
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            yield Answer(HTTPStatus.OK), self._read(pod, request.query)
        finally:
            self.open -= 1

    async def _read(self, pod: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        del query
        while (piece := await self._next(pod)) is not END:
            if isinstance(piece, TransportError):
                raise piece
            yield piece

    async def _next(self, pod: str) -> bytes | TransportError | None:
        pieces = self.of(pod)
        return END if pod in self.ended and pieces.empty() else await pieces.get()

    async def close(self) -> None:
        await self._transport.close()
