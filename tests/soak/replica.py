"""Replicas of the operator, each behind a proxy of its own that can lose, delay and refuse its requests."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import orjson

from chaos.history import Version
from chaos.run import Environment
from chaos.supervisor import ForkedOperator, Supervisor
from support.api_request import Answer, Request
from support.fault_proxy import LOST, FaultProxy, Forward, Passed, Route

ROOT = Path(__file__).parents[2]
#: Seconds until an operator that has ended is started again.
PAUSE = (0.5, 3.0)


@dataclass
class Connection:
    """The connection of a replica to the API server, which loses `lossy` of a thousand answers.

    `instead` is the answer to all requests, which are then not forwarded. `heard` are the objects that the replica has
    read and its watches have delivered, by namespace, of those that are open.
    """

    proxy: FaultProxy
    instead: Answer | None = None
    lossy: int = 0
    delay: float = 0.0
    heard: dict[str, list[Version]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.proxy.default = self._route(writes=deque(maxlen=0), passed=deque(maxlen=0))  # renewed Leases, for hours

    def shut(self) -> None:
        """Break all connections, and accept no more requests."""
        self.instead = LOST
        self.proxy.hang_up()

    def open(self, namespace: str) -> None:
        """Record the requests of a namespace."""
        self.proxy.routes[namespace] = self._route()
        self.heard[namespace] = []

    def close(self, namespace: str) -> tuple[list[Passed], list[Version]]:
        """Return the writes in a namespace, and the objects that the replica has received from it."""
        return self.proxy.routes.pop(namespace).passed, self.heard.pop(namespace)

    def _route(self, **records: deque) -> Route:
        return Route(
            instead=lambda _request: self.instead,
            on_write=self._request,
            on_read=self._request,
            on_watch=self._watch,
            **records,
        )

    async def _request(self, request: Request, forward: Forward) -> Answer:
        if self.delay:
            await asyncio.sleep(self.delay)
        answer = await forward()
        if request.verb == "GET" and answer.status == HTTPStatus.OK:
            self._hear(request.plural, orjson.loads(answer.body))
        lost = request.verb != "GET" and random.randrange(1000) < self.lossy
        return LOST if lost or self.instead else answer

    async def _watch(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            event = orjson.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                self._hear(request.plural, event["object"])
            yield line

    def _hear(self, plural: str, found: dict) -> None:
        """Lists are ignored: each change of their objects is in the answer to a write or in a watch."""
        versions = self.heard.get(found.get("metadata", {}).get("namespace", ""))
        if versions is not None:
            versions.append(Version(time.time(), plural, None, found))


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its connection, and its operator, which is restarted whenever it ends."""

    name: str
    connection: Connection
    supervisor: Supervisor

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.supervisor.operator.pid


async def begin(stack: AsyncExitStack, env: Environment, name: str, *flags: str) -> Replica:
    """Start a replica of this name."""
    proxy = await stack.enter_async_context(FaultProxy(env.api))
    connection = Connection(proxy)
    home = env.folder / name
    home.mkdir(parents=True, exist_ok=True)
    operator = ForkedOperator(proxy.kubeconfig(home), home, name, f"--lease-identity={name}", *flags)
    return Replica(name, connection, await stack.enter_async_context(Supervisor(operator, PAUSE)))


def commit() -> str:
    """The commit of the sources, with a mark if they were changed."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
