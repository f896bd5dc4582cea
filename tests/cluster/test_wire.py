"""Bytes to and from a server: each answer becomes the error that it is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import ssl

import pytest
from aiohttp import web

from bed.certificates import Authority
from trainshed import cluster
from trainshed.cluster.credentials import Credentials
from trainshed.cluster.wire import AlreadyExists, Path, Wire

PODS = Path("/api/v1", "pods", "ml")


@contextlib.asynccontextmanager
async def answering(handler, told=None):
    """A wire to a server that answers with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    wire = Wire(Credentials(f"http://127.0.0.1:{port}", token="t"), told or (lambda *_: None))
    yield wire
    await wire.close()
    await runner.cleanup()


def saying(status, reason="", message="m", headers=None):
    """A handler that gives this answer."""

    async def handler(_request):
        return web.json_response({"reason": reason, "message": message}, status=status, headers=headers)

    return handler


@pytest.mark.parametrize(
    ("status", "reason", "message", "error", "name"),
    [
        (400, "BadRequest", "m", cluster.Invalid, "Invalid"),
        (401, "Unauthorized", "m", cluster.Unavailable, "Unauthorized"),
        (403, "Forbidden", "exceeded quota: few", cluster.Denied, "QuotaExceeded"),
        (403, "Forbidden", "x because it is being terminated", cluster.Denied, "NamespaceTerminating"),
        (403, "Forbidden", "no rights", cluster.Denied, "Forbidden"),
        (404, "NotFound", "m", cluster.Missing, "NotFound"),
        (409, "AlreadyExists", "m", AlreadyExists, "AlreadyExists"),
        (409, "Conflict", "m", cluster.Conflict, "Conflict"),
        (410, "Expired", "m", cluster.Expired, "Expired"),
        (413, "", "m", cluster.Invalid, "Invalid"),
        (422, "Invalid", "m", cluster.Invalid, "Invalid"),
        (429, "TooManyRequests", "m", cluster.Throttled, "TooManyRequests"),
        (500, "InternalError", "m", cluster.Unavailable, "Unavailable"),
        (503, "", "m", cluster.Unavailable, "Unavailable"),
    ],
)
async def test_each_answer_becomes_the_error_that_it_is(status, reason, message, error, name):
    async with answering(saying(status, reason, message)) as wire:
        with pytest.raises(error) as raised:
            await wire.call("POST", PODS, {})
    assert type(raised.value) is error
    assert raised.value.reason == name
    assert message in str(raised.value)


@pytest.mark.parametrize(("header", "seconds"), [({"Retry-After": "7"}, 7), ({"Retry-After": "900"}, 60), ({}, 1)])
async def test_the_server_says_how_long_to_wait(header, seconds):
    async with answering(saying(429, headers=header)) as wire:
        with pytest.raises(cluster.Throttled) as raised:
            await wire.call("GET", PODS)
    assert raised.value.wait == seconds


async def test_a_request_says_who_where_and_what():
    seen = {}

    async def handler(request):
        kind, token = request.headers["Content-Type"], request.headers["Authorization"]
        seen.update(path=request.path_qs, kind=kind, token=token, body=await request.json())
        return web.json_response({"ok": True})

    told = []
    async with answering(handler, lambda *words: told.append(words)) as wire:
        content = await wire.call("PATCH", Path("/api/v1", "pods", "ml", "x", "status"), {"a": 1}, {"q": "1"})
    assert json.loads(content) == {"ok": True}
    assert seen == {
        "path": "/api/v1/namespaces/ml/pods/x/status?q=1",
        "kind": "application/merge-patch+json",
        "token": "Bearer t",
        "body": {"a": 1},
    }
    assert told == [("PATCH", "pods", 200)]


async def test_text_that_is_no_status_is_told_as_it_is():
    async def handler(_request):
        return web.Response(status=502, text="<html>bad gateway")

    async with answering(handler) as wire:
        with pytest.raises(cluster.Unavailable, match="bad gateway"):
            await wire.call("GET", PODS)


async def test_no_answer_at_all_is_an_unknown_outcome():
    told = []
    wire = Wire(Credentials("http://127.0.0.1:1"), lambda *words: told.append(words))
    with pytest.raises(cluster.Unavailable):
        await wire.call("GET", PODS)
    with pytest.raises(cluster.Unavailable):
        async for _ in wire.watch(PODS, {}):
            pass
    assert told == [("GET", "pods", 0)]
    await wire.close()


async def test_a_token_file_that_is_away_is_an_unknown_outcome(tmp_path):
    wire = Wire(Credentials("http://127.0.0.1:1", token_file=str(tmp_path / "away")))
    with pytest.raises(cluster.Unavailable):
        await wire.call("GET", PODS)
    await wire.close()


async def test_a_watch_gives_whole_lines_however_they_were_cut():
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b'{"a"', b': 1}\n{"b": 2}\n', b'{"c": 3}', b"\n" * 250):
            await response.write(piece)
            await asyncio.sleep(0)
        return response

    async with answering(handler) as wire:
        lines = [line async for line in wire.watch(PODS, {}) if line]
    assert lines == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


async def test_a_line_without_end_is_not_believed(monkeypatch):
    monkeypatch.setattr("trainshed.cluster.wire.LONGEST_LINE", 10)

    async def handler(_request):
        return web.Response(body=b"x" * 100)

    async with answering(handler) as wire:
        with pytest.raises(cluster.Unavailable, match="too long"):
            async for _ in wire.watch(PODS, {}):
                pass


async def test_a_watch_that_is_let_go_is_gone_at_once_though_the_server_says_no_goodbye(tmp_path):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("server", "server", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")

    async def deaf(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
        writer.transport.pause_reading()
        await let_go.wait()
        writer.transport.abort()

    let_go = asyncio.Event()
    server = await asyncio.start_server(deaf, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    wire = Wire(Credentials(f"https://127.0.0.1:{port}", ca=str(authority.certificate)))
    before = open_sockets()
    watch = wire.watch(PODS, {})
    assert await anext(watch) == b"{}"
    assert open_sockets() == before + 2, "an end for each side"
    await watch.aclose()
    await wire.close()
    assert open_sockets() == before + 1
    let_go.set()
    server.close()
    await asyncio.sleep(0.1)
    assert open_sockets() < before, "the server's, too"


def open_sockets() -> int:
    """How many this process has."""
    return sum(path.is_socket() for path in pathlib.Path("/proc/self/fd").iterdir())


async def test_a_watch_that_is_refused_is_an_error():
    async with answering(saying(410, "Expired")) as wire:
        with pytest.raises(cluster.Expired):
            async for _ in wire.watch(PODS, {}):
                pass


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (Path("/api/v1", "pods"), "/api/v1/pods"),
        (Path("/apis/g/v1", "jobs", "ns", "x"), "/apis/g/v1/namespaces/ns/jobs/x"),
    ],
)
def test_a_path_is_written_as_the_server_wants_it(path, text):
    assert str(path) == text
