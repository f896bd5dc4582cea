"""The way to the server in memory: requests, watches, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import orjson
import pytest

from support.virtual_time import VirtualTimeLoop
from trainshed.client.transport import Request, WriteNotPermitted
from trainshed.memory.built_in import BUILT_IN
from trainshed.memory.in_process import MemoryTransport
from trainshed.memory.server import Server

PATH = "/api/v1/namespaces/ml/configmaps"


def play(test: Callable[[Server, MemoryTransport], Awaitable[None]], history: int = 0) -> None:
    server = Server(lambda: 1.8e9, BUILT_IN, history=history)
    server.make_namespace("ml")
    with closing(VirtualTimeLoop()) as loop:
        loop.run_until_complete(test(server, MemoryTransport(server)))


def a_request(verb: str, body: dict | None = None, permit: Callable[[], bool] = lambda: True, **query: str) -> Request:
    return Request(verb, PATH, query, "application/json", orjson.dumps(body) if body else None, permit)


def create(server: Server, name: str) -> None:
    server.request("user", "POST", PATH, body={"metadata": {"name": name}})


def events(content: bytes) -> list[tuple[str, str]]:
    found = [orjson.loads(line) for line in content.splitlines()]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


def test_a_write_that_is_not_permitted_is_not_sent():
    async def test(server: Server, transport: MemoryTransport) -> None:
        with pytest.raises(WriteNotPermitted):
            await transport.exchange(a_request("POST", {"metadata": {"name": "a"}}, lambda: False))
        assert not server.objects("configmaps")

    play(test)


def test_a_watch_has_each_event_bookmarks_and_an_end():
    async def test(server: Server, transport: MemoryTransport) -> None:
        create(server, "a")
        async with transport.stream(a_request("GET", watch="true", timeoutSeconds="100")) as (answer, pieces):
            assert answer.status == 200
            found = [events(await anext(pieces))]
            create(server, "b")
            create(server, "c")
            found += [events(piece) async for piece in pieces]
        assert found == [[("ADDED", "a")], [("ADDED", "b"), ("ADDED", "c")], [("BOOKMARK", "")], [("BOOKMARK", "")], []]
        assert asyncio.get_running_loop().time() < 1200
        create(server, "d")  # no watch is left

    play(test)


def test_a_reader_that_is_cancelled_as_a_line_arrives_ends():
    async def test(server: Server, transport: MemoryTransport) -> None:
        async def read() -> None:
            async with transport.stream(a_request("GET", watch="true")) as (_, pieces):
                async for _ in pieces:
                    pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        create(server, "a")
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()

    play(test)


def test_a_watch_from_a_version_that_is_not_kept_is_expired():
    async def test(server: Server, transport: MemoryTransport) -> None:
        first = str(server.store.version)
        for number in range(50):
            create(server, f"n{number}")
        async with transport.stream(a_request("GET", watch="true", resourceVersion=first)) as (_, pieces):
            assert orjson.loads(await anext(pieces))["object"]["code"] == 410
        latest = str(server.store.version - 5)
        async with transport.stream(a_request("GET", watch="true", resourceVersion=latest)) as (_, pieces):
            assert len(events(await anext(pieces))) == 5

    play(test, history=10)
