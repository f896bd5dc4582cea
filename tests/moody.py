"""A server with moods: its lists and watches are what a test says, and time flies while nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import json

from aiohttp import web

from hasty import clock, hastily
from trainshed.cluster.credentials import Credentials
from trainshed.cluster.informer import Informer
from trainshed.cluster.lists import PODS
from trainshed.cluster.transport import Sockets
from trainshed.cluster.wire import Path, Wire

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}


def a_pod(name: str, version: int) -> dict:
    return {"metadata": {"name": name, "uid": f"{name}-uid", "resourceVersion": str(version)}}


def event(what: str, name: str, version: int) -> dict:
    return {"type": what, "object": a_pod(name, version)}


class Moody:
    """A server: `lists` and `watches` are what it says, one after another, the last of them for ever.

    A list is a status and its body; a watch is the seconds that it lasts, None for ever, after the events it tells.
    """

    def __init__(self, lists: list[tuple[int, dict]], watches: list[tuple[float | None, list[dict]]]) -> None:
        self.lists, self.watches = lists, watches
        self.asked: list[tuple[str, float, dict[str, str]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if "watch" in query:
            self.asked.append(("watch", clock(), query))
            return await self._watch(request, *self._next(self.watches))
        self.asked.append(("list", clock(), query))
        status, body = self._next(self.lists)
        return web.json_response(body, status=status)

    def times(self, what: str) -> list[float]:
        """When it was asked for a list, or a watch."""
        return [when for asked, when, _ in self.asked if asked == what]

    async def _watch(self, request: web.Request, seconds: float | None, events: list[dict]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for told in events:
            await response.write(json.dumps(told).encode() + b"\n")
        await asyncio.sleep(10**6 if seconds is None else seconds)
        return response

    @staticmethod
    def _next(script: list):
        return script.pop(0) if len(script) > 1 else script[0]


def a_list(version: int, *names: str, go_on: str = "", **others: int) -> tuple[int, dict]:
    """A list of pods as of a version; those without one of their own are of that one as well."""
    items = [a_pod(name, version) for name in names] + [a_pod(name, own) for name, own in others.items()]
    return 200, {"metadata": {"resourceVersion": str(version), "continue": go_on}, "items": items}


def refused(code: int) -> tuple[int, dict]:
    return code, {"message": f"{code} by mood"}


class Listener:
    """Keeps what it is told, by name."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.lists: list[str] = []

    def replaced(self, items, version) -> None:
        self.lists.append(version)
        self.known = {item.name: item.version for item in items}

    def changed(self, item) -> None:
        self.known[item.name] = item.version

    def removed(self, item) -> None:
        self.known.pop(item.name, None)

    def reached(self, version) -> None:
        """Nothing that is looked at here."""

    def count(self) -> int:
        return len(self.known)


@contextlib.asynccontextmanager
async def listening(server: Moody):
    """A listener to this server."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    wire = Wire(Sockets(Credentials(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}")))
    listener = Listener()
    informer = Informer(wire, Path("/api/v1", "pods"), PODS, listener)
    task = asyncio.create_task(informer.run())
    yield listener, informer
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await wire.close()
    await runner.cleanup()


def after(server: Moody, seconds: float) -> tuple[Listener, Informer]:
    """The listener, so many seconds after it began to listen to this server."""

    async def story():
        async with listening(server) as (listener, informer):
            await asyncio.sleep(seconds)
            return listener, informer

    return hastily(story())
