"""Requests and responses are transported; every failure is the same error."""

from __future__ import annotations

import asyncio
import pathlib
import ssl

import pytest
from aiohttp import web

from testbed.certificates import Authority
from trainshed.client.credentials import Credentials
from trainshed.client.http import HttpTransport
from trainshed.client.transport import Request, TransportError, WriteNotPermitted

READ = Request("GET", "/api/v1/pods", {}, "application/json")
WATCH = Request("GET", "/api/v1/pods", {"watch": "true"}, "application/json")


async def test_a_missing_response_is_an_unknown_outcome():
    sockets = HttpTransport(Credentials("http://127.0.0.1:1"))
    with pytest.raises(TransportError, match="ConnectionRefusedError"):
        await sockets.exchange(READ)
    with pytest.raises(TransportError, match="ConnectionRefusedError"):
        async with sockets.stream(WATCH):
            pass
    await sockets.close()


async def test_a_missing_token_file_is_an_unknown_outcome(tmp_path):
    sockets = HttpTransport(Credentials("http://127.0.0.1:1", token_file=str(tmp_path / "away")))
    with pytest.raises(TransportError, match="FileNotFoundError"):
        await sockets.exchange(READ)
    await sockets.close()


async def test_responses_and_streams_are_returned_unchanged_also_errors():
    async def handler(request):
        if request.query.get("watch"):
            return web.Response(status=410, text="gone")
        return web.Response(status=429, text=await request.text(), headers={"Retry-After": "7"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sockets = HttpTransport(Credentials(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"))
    answer = await sockets.exchange(Request("POST", "/api/v1/pods", {}, "application/json", b"a pod"))
    assert (answer.status, answer.content, answer.wait) == (429, b"a pod", "7")
    async with sockets.stream(WATCH) as (refusal, pieces):
        assert (refusal.status, refusal.content) == (410, b"gone")
        assert [piece async for piece in pieces] == []
    await sockets.close()
    await runner.cleanup()


async def serving(handler, context=None):
    """Start a server that responds with `handler`; return its clean-up function and its port."""
    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{path:.*}", handler)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    return runner.cleanup, site._server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status):
    asked = []

    async def handler(request):
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": "http://127.0.0.1:1/elsewhere?token=canary"})

    end, port = await serving(handler)
    sockets = HttpTransport(Credentials(f"http://127.0.0.1:{port}", token="secret"))
    words = rf"redirect \({status}\) to http://127.0.0.1:1/elsewhere, which"
    with pytest.raises(TransportError, match=words):
        await sockets.exchange(Request("POST", "/api/v1/pods", {}, "application/json", b"a pod"))
    with pytest.raises(TransportError, match=words):
        async with sockets.stream(WATCH):
            pass
    assert asked == ["/api/v1/pods"] * 2
    await sockets.close()
    await end()


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
async def test_a_server_with_an_unknown_certificate_gets_no_request(scheme, tmp_path):
    own, other = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    for authority in (own, other):
        authority.make()
        authority.sign("server", "server", hosts=("127.0.0.1",))
    asked = []

    async def handler(request):
        asked.append(request.headers.get("Authorization"))
        return web.Response()

    end, port = await serving(handler, other.server_tls("server"))
    sockets = HttpTransport(Credentials(f"{scheme}://127.0.0.1:{port}", ca=str(own.certificate), token="secret"))
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        await sockets.exchange(READ)
    assert asked == []
    await sockets.close()
    await end()


async def test_a_ca_may_lack_the_extensions_that_python_3_13_demands(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("server", "server", hosts=("127.0.0.1",))
    default = ssl.create_default_context

    def of_python_3_13(**options):
        context = default(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", of_python_3_13)

    async def handler(_):
        return web.Response()

    end, port = await serving(handler, authority.server_tls("server"))
    credentials = Credentials(f"https://127.0.0.1:{port}", ca=str(authority.certificate))
    sockets, demanding = HttpTransport(credentials), HttpTransport(credentials)
    demanding._tls.verify_flags |= ssl.VERIFY_X509_STRICT
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        await demanding.exchange(READ)
    assert (await sockets.exchange(READ)).status == 200
    await demanding.close()
    await sockets.close()
    await end()


async def test_an_abandoned_watch_is_closed_at_once_without_a_tls_close(tmp_path):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("server", "server", hosts=("127.0.0.1",))

    async def deaf(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
        writer.transport.pause_reading()
        await let_go.wait()
        writer.transport.abort()

    let_go = asyncio.Event()
    server = await asyncio.start_server(deaf, "127.0.0.1", 0, ssl=authority.server_tls("server"))
    port = server.sockets[0].getsockname()[1]
    sockets = HttpTransport(Credentials(f"https://127.0.0.1:{port}", ca=str(authority.certificate)))
    before = open_sockets()
    async with sockets.stream(WATCH) as (answer, pieces):
        assert (answer.status, await anext(pieces)) == (200, b"{}\n")
        assert open_sockets() == before + 2, "one socket for each side"
    await sockets.close()
    assert open_sockets() == before + 1
    let_go.set()
    server.close()
    await asyncio.sleep(0.1)
    assert open_sockets() < before, "the server's socket is closed, too"


def open_sockets() -> int:
    """Return the number of open sockets of this process."""
    return sum(path.is_socket() for path in pathlib.Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("answers", [[False], [True, False]], ids=["at once", "while the connection is made"])
async def test_a_request_without_permission_is_not_carried_out(answers):
    carried_out = []

    async def handler(request):
        carried_out.append(await request.read())
        return web.Response()

    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{path:.*}", handler)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sockets = HttpTransport(Credentials(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"))
    asked = iter(answers)
    with pytest.raises(WriteNotPermitted):
        await sockets.exchange(Request("POST", "/api/v1/pods", {}, "application/json", b"a pod", lambda: next(asked)))
    assert next(asked, None) is None, "permission was checked as often as expected"
    await asyncio.sleep(0.1)
    assert carried_out == []
    await sockets.exchange(Request("POST", "/api/v1/pods", {}, "application/json", b"a pod"))
    assert carried_out == [b"a pod"], "the next request is not affected"
    await sockets.close()
    await runner.cleanup()
