"""Creates the pods and Services of jobs and decides nothing: the least that an operator in Python has to do.

The operator's Python runs it, with the operator's connections, watches and decoders. It reads its `Orders` from
standard input as one line and writes `ready`. With a watch it then runs until it is terminated. Without one it waits
for another line, creates everything, and writes the monotonic times of the beginning and the end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import count
from typing import Any

import msgspec

from trainshed.client.decode import ObjectMeta
from trainshed.client.http import HttpTransport
from trainshed.client.informer import Informer
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.lists import METADATA, PODS, SERVICES
from trainshed.client.transport import FIELD_MANAGER, JSON, MERGE_PATCH, Path, Request, RestClient
from trainshed.controller.store import Store
from trainshed.event_loop import EventLoop

#: Requests in flight.
WIDTH = 32
CORE = "/api/v1"
#: What is stored for each job once its pods exist: the smallest status that says so.
CREATED = {"type": "Created", "status": "True", "reason": "Created", "message": "all pods are created"}
STATUS = msgspec.json.encode({"status": {"conditions": [CREATED]}})


class Orders(msgspec.Struct):
    """What to create where: by job, the plural and the body of each object, in order.

    With a `path` of jobs, its prefix and plural, a job's objects are created when a watch shows the job.
    """

    kubeconfig: str
    namespace: str
    jobs: dict[str, list[tuple[str, msgspec.Raw]]]
    path: tuple[str, str] | None = None


class Jobs:
    """The handler of the watch of the jobs: calls `found` with the name of each that appears."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._versions: dict[str, str] = {}

    def replaced(self, items: list[ObjectMeta], version: str) -> None:
        """Ignore the first list: jobs are created later."""

    def changed(self, item: ObjectMeta) -> None:
        """Begin with a new job."""
        if item.uid not in self._versions:
            self._floor.begin(item.name)
        self._versions[item.uid] = item.resource_version

    def removed(self, item: ObjectMeta) -> None:
        """Ignore it."""

    def has(self, uid: str, version: str) -> bool:
        """Return whether the job is known at this version."""
        return self._versions.get(uid) == version

    def reached(self, version: str) -> None:
        """Ignore it."""

    def count(self) -> int:
        """Return the number of jobs."""
        return len(self._versions)


class Floor:
    """Carries out orders."""

    def __init__(self, orders: Orders) -> None:
        self._transport = HttpTransport(find_credentials(orders.kubeconfig))
        self._orders = orders
        #: What waits to be sent, in order: all creations before any status, as the operator does it.
        self._waiting: asyncio.PriorityQueue[tuple[bool, int, Request, str]] = asyncio.PriorityQueue()
        self._order = count()
        self._left = {name: len(objects) for name, objects in orders.jobs.items()}

    async def create(self) -> tuple[float, float]:
        """Create everything now; return the times of the beginning and the end."""
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work()) for _ in range(WIDTH)]
            began = time.monotonic()
            for name in self._orders.jobs:
                self.begin(name)
            await self._waiting.join()
            ended = time.monotonic()
            for worker in workers:
                worker.cancel()
        return began, ended

    async def follow(self, jobs: tuple[str, str]) -> None:
        """Follow jobs, pods and Services without end."""
        rest, namespace = RestClient(self._transport), self._orders.namespace
        informers: list[Informer[Any]] = [
            Informer(rest, Path(CORE, "pods", namespace), PODS, Store(_ignore)),
            Informer(rest, Path(CORE, "services", namespace), SERVICES, Store(_ignore)),
            Informer(rest, Path(*jobs, namespace), METADATA, Jobs(self)),
        ]
        async with asyncio.TaskGroup() as group:
            for run in (*(informer.run for informer in informers), *[self._work] * WIDTH):
                group.create_task(run())
            for informer in informers:
                await informer.synced.wait()
            _write("ready")

    def begin(self, name: str) -> None:
        """Create the objects of a job; WIDTH requests of all jobs at a time."""
        for plural, body in self._orders.jobs[name]:
            path = str(Path(CORE, plural, self._orders.namespace))
            self._add(Request("POST", path, FIELD_MANAGER, JSON, bytes(body)), name)

    def _add(self, request: Request, name: str) -> None:
        self._waiting.put_nowait((request.verb == "PATCH", next(self._order), request, name))

    async def _work(self) -> None:
        while True:
            _, _, request, name = await self._waiting.get()
            await self._send(request)
            self._left[name] -= 1
            if self._orders.path and not self._left[name]:
                path = str(Path(*self._orders.path, self._orders.namespace, name, "status"))
                self._add(Request("PATCH", path, FIELD_MANAGER, MERGE_PATCH, STATUS), name)
            self._waiting.task_done()

    async def _send(self, request: Request) -> None:
        answer = await self._transport.exchange(request)
        if answer.status not in {200, 201}:
            raise RuntimeError(f"{request.verb} {request.path}: {answer.status} {answer.content.decode()}")


def _ignore(_before: object, _after: object) -> None:
    """Do nothing with a change."""


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main() -> None:
    """Read the orders and carry them out."""
    orders = msgspec.json.decode(sys.stdin.readline(), type=Orders)
    floor = Floor(orders)
    if orders.path:
        await floor.follow(orders.path)
        return
    _write("ready")
    sys.stdin.readline()
    began, ended = await floor.create()
    _write(f"{began} {ended}")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(main())
