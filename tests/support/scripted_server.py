"""Servers that answer as a test says, in virtual time: lists and watches, Events, and the Lease of a leader election.

`ScriptedServer` has a socket, for tests of an informer with its connections. `EventSink` and `StoredLease` replace the
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

from aiohttp import web

from support.builders import a_job
from support.virtual_time import clock, in_virtual_time, now
from trainshed.api.actions import Event
from trainshed.client import Conflict, Forbidden, NotFound, Unavailable
from trainshed.client.credentials import Credentials
from trainshed.client.http import HttpTransport
from trainshed.client.informer import Informer
from trainshed.client.lists import PODS
from trainshed.client.transport import Path, RestClient
from trainshed.controller.events import AGGREGATION_SECONDS, EventRecorder
from trainshed.controller.leader_election import LeaderElector, LeaseConfig

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
JOB = a_job(worker=2)


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
    wire = RestClient(HttpTransport(Credentials(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}")))
    yield wire
    await wire.close()
    await runner.cleanup()


@contextlib.asynccontextmanager
async def listening(server: ScriptedServer):
    """Run an informer of pods against this server."""
    async with connected(server) as wire:
        listener = Listener()
        informer = Informer(wire, Path("/api/v1", "pods"), PODS, listener)
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


class EventSink:
    """Takes Events as an API server does; `slow` is the latency in seconds, `slow_in` that in some namespaces."""

    def __init__(self) -> None:
        self.events: dict[str, dict] = {}
        self.updates: list[dict] = []
        self.refuses = False
        self.slow = 0.0
        self.slow_in: dict[str, float] = {}

    def is_busy(self) -> bool:
        """Nothing waits."""
        return False

    async def create_event(self, namespace: str, body: dict) -> None:
        await asyncio.sleep(self.slow_in.get(namespace, self.slow))
        if self.refuses:
            raise Forbidden("no events here")
        assert body["metadata"]["namespace"] == namespace
        if body["metadata"]["name"] in self.events:
            raise Conflict(body["metadata"]["name"])
        self.events[body["metadata"]["name"]] = dict(body)

    async def update_event(self, _namespace: str, name: str, patch: dict) -> None:
        if name not in self.events:
            raise NotFound(name)
        self.updates.append(patch)
        self.events[name].update(patch)

    def messages(self) -> list[str]:
        """Return the messages of the Events."""
        return [event["message"] for event in self.events.values()]


class Scene:
    """A recorder that runs, and the place of its Events."""

    def __init__(self, sink: EventSink | None = None) -> None:
        self.sink, self.losses = sink or EventSink(), 0
        self.recorder = EventRecorder(self.sink, self._lose, now)
        self.task = asyncio.create_task(self.recorder.run())

    def tell(self, *notes: Event, names=(), job=JOB) -> None:
        """Record these Events."""
        for note in notes:
            self.recorder.record(job, note, names)

    async def settle(self) -> None:
        """Return when all Events are written."""
        await asyncio.sleep(2 * AGGREGATION_SECONDS + 0.1)
        assert not self.task.done()

    def _lose(self) -> None:
        self.losses += 1


class StoredLease:
    """The Lease as a server keeps it."""

    def __init__(self) -> None:
        self.lease: dict | None = None
        self.version = 0


class LeaseConnection:
    """A connection to the Lease that may be cut, hang or answer late; `renewed` is when the last write was sent."""

    def __init__(self, leases: StoredLease) -> None:
        self.leases = leases
        self.cut = self.hangs = False
        self.late = self.asked = self.renewed = 0.0
        self.requests = 0

    async def read_lease(self, _namespace: str, _name: str) -> dict | None:
        self.asked = clock()
        await self._carry()
        return self.leases.lease

    async def write_lease(self, _namespace: str, _name: str, body: dict) -> dict:
        await self._carry()
        there = self.leases.lease
        if (there or {"metadata": {}})["metadata"].get("resourceVersion") != body["metadata"].get("resourceVersion"):
            raise Conflict("another client was faster")
        self.leases.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.leases.version)}
        self.leases.lease = {**body, "metadata": metadata}
        self.renewed = self.asked
        await asyncio.sleep(self.late)
        return self.leases.lease

    async def _carry(self) -> None:
        self.requests += 1
        await asyncio.sleep(3600 if self.hangs else 0.01)
        if self.cut:
            raise Unavailable("the line is cut")


class Replica:
    """A replica of the operator that takes part in the leader election."""

    def __init__(self, leases: StoredLease, name: str, address: str = "") -> None:
        self.line = LeaseConnection(leases)
        self.losses: list[float] = []
        self.elector = LeaderElector(
            self.line, LeaseConfig("ml", "lease", name, address), lambda: self.losses.append(clock()), clock
        )
        self.task = asyncio.create_task(self.elector.run())

    async def acquires(self, within: float) -> float:
        """Return after how many seconds it has the Lease."""
        began = clock()
        async with asyncio.timeout(within):
            while not self.elector.is_leader():
                await asyncio.sleep(0.1)
        return clock() - began

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
