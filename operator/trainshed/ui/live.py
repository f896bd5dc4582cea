"""How a page stays current: Server-Sent Events with the parts of it that have changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web
from htpy import Renderable

from .base_path import BASE, with_base
from .feed import Feed

#: Seconds between two messages at least, and after which what changes with time alone is sent.
APART, TICK = 0.2, 10.0
#: How much longer the pause after a message is than the processor took to draw it: a large page leaves time for others.
REST = 4
#: Milliseconds after which the browser connects again.
RETRY = b"retry: 2000\n\n"


class Update:
    """What is sent to one browser: the parts of its page that are not as they were sent before."""

    def __init__(self) -> None:
        self._sent: dict[str, Any] = {}
        self._message: dict[str, Any] = {}

    def element(self, name: str, found: Renderable) -> None:
        """Replace the element with this id, whose descendants keep focus and scroll."""
        self._add("html", name, str(found))

    def row(self, name: str, found: Renderable) -> None:
        """Replace or add a row of a table; `order` says where it is."""
        self._message.setdefault("html", {})[name] = str(found)

    def order(self, name: str, ids: Sequence[str]) -> None:
        """Put the rows below the element with this id in an order; others are removed."""
        self._add("order", name, list(ids))

    def texts(self, found: Mapping[str, str]) -> None:
        """Replace the texts of elements by their ids."""
        for name, text in found.items():
            self._add("texts", name, text)

    def _add(self, part: str, name: str, value: object) -> None:
        if self._sent.get(f"{part} {name}") != value:
            self._sent[f"{part} {name}"] = value
            self._message.setdefault(part, {})[name] = value

    def take(self) -> dict[str, Any]:
        """Return the message, empty if nothing has changed, and begin the next one."""
        message, self._message = self._message, {}
        return message


#: Adds to an update what has changed after a revision.
Draw = Callable[[Update, int], Awaitable[None]]


def pause(took: float) -> float:
    """Return the seconds after a message that took so many seconds of the processor."""
    return max(APART, min(REST * took, TICK))


async def follow(request: web.Request, feed: Feed, draw: Draw) -> web.StreamResponse:
    """Send what `draw` says has changed, at once but at most five times a second, until the feed ends."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    await response.prepare(request)
    await response.write(RETRY)
    given = request.headers.get("Last-Event-ID", request.query.get("since", ""))
    known = int(given) if given.isdecimal() and len(given) < 20 else 0  # noqa: PLR2004 - digits
    update = Update()
    base = request.app.get(BASE, "")
    while not feed.is_over:
        newest, began = feed.revision, time.thread_time()
        await draw(update, known)
        known = newest
        message, took = update.take(), time.thread_time() - began
        if message:
            data = with_base(orjson.dumps(message).decode(), base)
            await response.write(f"id: {known}\ndata: {data}\n\n".encode())
        else:
            await response.write(b":\n\n")
        await asyncio.sleep(pause(took))
        try:
            async with asyncio.timeout(TICK):
                await feed.newer(known)
        except TimeoutError:
            continue
    return response
