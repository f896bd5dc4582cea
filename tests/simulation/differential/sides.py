"""Two servers to ask the same things: the real one over sockets, and the simulated one in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

from simulation.answers import Refusal
from simulation.collector import Collector
from simulation.machine import EPOCH
from simulation.resources import PODS
from simulation.server import Server
from trainshed.client.transport import AiohttpTransport, Answer, Request

from .masks import CERTIFICATE

Document = dict[str, Any]
GROUPS = {
    "leases": "/apis/coordination.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "tfjobs": "/apis/kubeflow.org/v1",
    "pytorchjobs": "/apis/kubeflow.org/v1",
}
#: Seconds that the real controllers and watches have to come to where the simulated ones are at once.
PATIENCE = 15.0


class Heard(Protocol):
    """A watch as it was heard so far."""

    answer: Answer
    lines: list[Document]


class Side(Protocol):
    """A server, and one namespace in it."""

    async def ask(self, request: Request) -> Answer:
        """One request."""
        ...

    async def listen(self, request: Request) -> Heard:
        """Open a watch."""
        ...

    async def close(self) -> None:
        """Listen no more."""
        ...


class Lines:
    """The lines of a watch, and the answer that it began with."""

    def __init__(self) -> None:
        self.answer = Answer(200)
        self.lines: list[Document] = []

    def take(self, line: bytes) -> None:
        """Hear a line."""
        if line.strip():
            self.lines.append(orjson.loads(line))


class Simulated:
    """A server of its own for one sequence."""

    def __init__(self, namespace: str) -> None:
        self.server = Server(lambda: EPOCH)
        self.server.make_namespace(namespace)
        self.collector = Collector(self.server)

    async def ask(self, request: Request) -> Answer:
        """One request."""
        return self.server.answer("user", request)

    async def listen(self, request: Request) -> Lines:
        """Open a watch."""
        heard = Lines()
        try:
            self.server.watch(request.path, request.query, heard.take)
        except Refusal as refusal:
            heard.answer = Answer(refusal.code, refusal.content)
        return heard

    async def close(self) -> None:
        """Nothing to let go of."""

    def sweeps(self) -> bool:
        """Whether the garbage collector had anything to do; it has done it."""
        return self.collector.sweep_all() > 0


class Real:
    """The real server, through one pool of connections that others use as well."""

    def __init__(self, sockets: AiohttpTransport) -> None:
        self._sockets = sockets
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, request: Request) -> Answer:
        """One request."""
        return await self._sockets.exchange(request)

    async def listen(self, request: Request) -> Lines:
        """Open a watch."""
        heard, begun = Lines(), asyncio.Event()
        self._tasks.append(asyncio.create_task(self._read(request, heard, begun)))
        await begun.wait()
        return heard

    async def close(self) -> None:
        """Listen no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _read(self, request: Request, heard: Lines, begun: asyncio.Event) -> None:
        async with self._sockets.stream(request) as (answer, pieces):
            heard.answer = answer
            begun.set()
            rest = b""
            async for piece in pieces:
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    heard.take(line)


def path(namespace: str, plural: str, name: str = "", part: str = "") -> str:
    """Where an object is."""
    words = (GROUPS.get(plural, "/api/v1"), "namespaces", namespace, plural, name, part)
    return "/".join(word for word in words if word)


def request(verb: str, where: str, query: dict[str, str] | None = None, body: object = None) -> Request:
    """A request with a document in it."""
    kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
    return Request(verb, where, query or {}, kind, None if body is None else orjson.dumps(body))


async def eventually(question: Callable[[], Awaitable[bool]], within: float = PATIENCE) -> bool:
    """Whether it became true in time."""
    pause = 0.01
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            while not await question():
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.3)
            return True
    return False


async def sweep(side: Side, namespace: str, kinds: tuple[str, ...]) -> None:
    """Let nothing stay in a namespace."""
    left: list[Document] = []

    async def swept() -> bool:
        left.clear()
        entangled = False
        for plural in kinds:
            answer = await side.ask(request("GET", path(namespace, plural)))
            for item in orjson.loads(answer.content)["items"]:
                if item["metadata"]["name"] == CERTIFICATE:
                    continue
                left.append(item["metadata"])
                entangled |= bool({"finalizers", "ownerReferences", "deletionTimestamp"} & item["metadata"].keys())
                await _remove(side, namespace, plural, item["metadata"])
        return not left or not entangled  # plain objects go at once

    assert await eventually(swept, 60), f"these will not go: {left}"


async def _remove(side: Side, namespace: str, plural: str, metadata: Document) -> None:
    where = path(namespace, plural, metadata["name"])
    if metadata.get("finalizers"):
        await side.ask(request("PATCH", where, body={"metadata": {"finalizers": None}}))
    options: Document = {"propagationPolicy": "Background"}
    if plural == PODS.plural:
        options["gracePeriodSeconds"] = 0
    await side.ask(request("DELETE", where, body=options))
