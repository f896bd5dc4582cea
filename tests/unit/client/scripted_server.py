"""A server with a socket that answers lists and watches as a test says, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json

from aiohttp import web

from support.virtual_time import clock, in_virtual_time
from trainshed.client.credentials import Credentials
from trainshed.client.http import HttpTransport
from trainshed.client.informer import Informer
from trainshed.client.lists import PODS
from trainshed.client.transport import Path, RestClient

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}


def a_pod(name: str, version: int) -> dict:
    return {"metadata": {"name": name, "uid": f"{name}-uid", "resourceVersion": str(version)}}


def event(what: str, name: str, version: int) -> dict:
    return {"type": what, "object": a_pod(name, version)}


class ScriptedServer:
    """An API server that gives the answers `lists` and `watches` one after another, and repeats the last of each.

    A list is a status and its body; a watch is the seconds that it lasts, None without an end, and its events.
    `objects` are the answers to reads of single objects, by name.
    """

    def __init__(self, lists: list[tuple[int, dict]], watches: list[tuple[float | None, list[dict]]]) -> None:
        self.lists, self.watches = lists, watches
        self.objects: dict[str, tuple[int, dict]] = {}
        self.asked: list[tuple[str, float, dict[str, str]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if "watch" in query:
            self.asked.append(("watch", clock(), query))
            return await self._watch(request, *self._next(self.watches))
        if (name := request.path.rpartition("/")[2]) != "pods":
            self.asked.append(("get", clock(), query))
            status, body = self.objects[name]
            return web.json_response(body, status=status)
        self.asked.append(("list", clock(), query))
        status, body = self._next(self.lists)
        return web.json_response(body, status=status)

    def times(self, what: str) -> list[float]:
        """Return the times of the requests for a list, or for a watch."""
        return [when for asked, when, _ in self.asked if asked == what]

    async def _watch(self, request: web.Request, seconds: float | None, events: list[dict]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(json.dumps(event).encode() + b"\n")
        await asyncio.sleep(10**6 if seconds is None else seconds)
        return response

    @staticmethod
    def _next(script: list):
        return script.pop(0) if len(script) > 1 else script[0]


def a_list(version: int, *names: str, continue_token: str = "", **others: int) -> tuple[int, dict]:
    """Return a list of pods at a version; `others` are pods with versions of their own."""
    items = [a_pod(name, version) for name in names] + [a_pod(name, own) for name, own in others.items()]
    return 200, {"metadata": {"resourceVersion": str(version), "continue": continue_token}, "items": items}


def refused(code: int) -> tuple[int, dict]:
    return code, {"message": f"{code} by mood"}


class Listener:
    """A store that keeps the versions of the objects by name."""

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

    def on_response(self, item) -> None:
        self.changed(item)

    def forgotten(self, uid) -> None:
        self.known.pop(uid.removesuffix("-uid"), None)

    def has(self, uid, version) -> bool:
        del uid, version
        return False

    def on_bookmark(self, version) -> None:
        """Ignore bookmarks."""

    def count(self) -> int:
        return len(self.known)


@contextlib.asynccontextmanager
async def connected(server: ScriptedServer):
    """Serve on a port of this machine, and yield a client of it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    rest = RestClient(HttpTransport(Credentials(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}")))
    yield rest
    await rest.close()
    await runner.cleanup()


@contextlib.asynccontextmanager
async def listening(server: ScriptedServer):
    """Run an informer of pods against this server."""
    async with connected(server) as rest:
        listener = Listener()
        informer = Informer(rest, Path("/api/v1", "pods"), PODS, listener)
        task = asyncio.create_task(informer.run())
        yield listener, informer
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def after(server: ScriptedServer, seconds: float) -> tuple[Listener, Informer]:
    """Return the store and its informer, this number of seconds after the informer was started."""

    async def story():
        async with listening(server) as (listener, informer):
            await asyncio.sleep(seconds)
            return listener, informer

    return in_virtual_time(story())
