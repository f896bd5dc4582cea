"""The two servers that are compared: the real one over sockets, and the simulated one in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

from simulation.cluster import EPOCH
from simulation.custom_resources import whole_server
from trainshed.client.http import HttpTransport
from trainshed.client.transport import Answer, Request
from trainshed.memory.built_in import PODS
from trainshed.memory.errors import StatusError
from trainshed.memory.garbage_collector import GarbageCollector

from .masks import CERTIFICATE

Document = dict[str, Any]
GROUPS = {
    "leases": "/apis/coordination.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "tfjobs": "/apis/kubeflow.org/v1",
    "pytorchjobs": "/apis/kubeflow.org/v1",
}
#: Seconds within which the real controllers and watches must reach the state of the simulated ones.
TIMEOUT = 15.0


class WatchLines(Protocol):
    """The lines of a watch so far."""

    answer: Answer
    lines: list[Document]


class Side(Protocol):
    """A server, and one namespace in it."""

    async def ask(self, request: Request) -> Answer:
        """One request."""
        ...

    async def watch(self, request: Request) -> WatchLines:
        """Open a watch."""
        ...

    async def close(self) -> None:
        """Close all watches."""
        ...


class Lines:
    """The lines of a watch, and the response to its request."""

    def __init__(self) -> None:
        self.answer = Answer(200)
        self.lines: list[Document] = []

    def take(self, line: bytes) -> None:
        """Take a line."""
        if line.strip():
            self.lines.append(orjson.loads(line))


class Simulated:
    """A new server for one sequence."""

    def __init__(self, namespace: str) -> None:
        self.server = whole_server(lambda: EPOCH)
        self.server.make_namespace(namespace)
        self.garbage_collector = GarbageCollector(self.server)

    async def ask(self, request: Request) -> Answer:
        """One request."""
        return self.server.handle("user", request)

    async def watch(self, request: Request) -> Lines:
        """Open a watch."""
        watched = Lines()
        try:
            self.server.watch(request.path, request.query, watched.take)
        except StatusError as error:
            watched.answer = Answer(error.code, error.content)
        return watched

    async def close(self) -> None:
        """Close nothing."""

    def collects_garbage(self) -> bool:
        """Run the garbage collector; return whether there was anything to do."""
        return self.garbage_collector.run() > 0


class Real:
    """The real server, through a shared pool of connections."""

    def __init__(self, sockets: HttpTransport) -> None:
        self._sockets = sockets
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, request: Request) -> Answer:
        """One request."""
        return await self._sockets.exchange(request)

    async def watch(self, request: Request) -> Lines:
        """Open a watch."""
        watched, begun = Lines(), asyncio.Event()
        self._tasks.append(asyncio.create_task(self._read(request, watched, begun)))
        await begun.wait()
        return watched

    async def close(self) -> None:
        """Close all watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _read(self, request: Request, watched: Lines, begun: asyncio.Event) -> None:
        async with self._sockets.stream(request) as (answer, pieces):
            watched.answer = answer
            begun.set()
            rest = b""
            async for piece in pieces:
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    watched.take(line)


def path(namespace: str, plural: str, name: str = "", part: str = "") -> str:
    """Return the path of an object."""
    words = (GROUPS.get(plural, "/api/v1"), "namespaces", namespace, plural, name, part)
    return "/".join(word for word in words if word)


def request(verb: str, where: str, query: dict[str, str] | None = None, body: object = None) -> Request:
    """Return a request with a document as its body."""
    kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
    return Request(verb, where, query or {}, kind, None if body is None else orjson.dumps(body))


async def eventually(question: Callable[[], Awaitable[bool]], within: float = TIMEOUT) -> bool:
    """Return whether it became true in time."""
    pause = 0.01
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            while not await question():
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.3)
            return True
    return False


async def delete_all(side: Side, namespace: str, kinds: tuple[str, ...]) -> None:
    """Delete everything in a namespace."""
    left: list[Document] = []

    async def is_empty() -> bool:
        left.clear()
        has_dependents = False
        for plural in kinds:
            answer = await side.ask(request("GET", path(namespace, plural)))
            for item in orjson.loads(answer.content)["items"]:
                if item["metadata"]["name"] == CERTIFICATE:
                    continue
                left.append(item["metadata"])
                has_dependents |= bool({"finalizers", "ownerReferences", "deletionTimestamp"} & item["metadata"].keys())
                await _remove(side, namespace, plural, item["metadata"])
        return not left or not has_dependents  # plain objects are deleted at once

    assert await eventually(is_empty, 60), f"these are not deleted: {left}"


async def _remove(side: Side, namespace: str, plural: str, metadata: Document) -> None:
    where = path(namespace, plural, metadata["name"])
    if metadata.get("finalizers"):
        await side.ask(request("PATCH", where, body={"metadata": {"finalizers": None}}))
    options: Document = {"propagationPolicy": "Background"}
    if plural == PODS.plural:
        options["gracePeriodSeconds"] = 0
    await side.ask(request("DELETE", where, body=options))
