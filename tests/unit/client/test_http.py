"""Connections are reused, closed and repeated as HTTP/1.1 allows, whatever the server sends."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testbed.certificates import Authority
from trainshed.client import http
from trainshed.client.credentials import Credentials, Plugin, PluginAnswer
from trainshed.client.http import HttpTransport
from trainshed.client.transport import Request, TransportError
from trainshed.controller import kopf_shim

READ = Request("GET", "/api/v1/pods", {}, "application/json")
WATCH = Request("GET", "/api/v1/pods", {"watch": "true"}, "application/json")
WRITE = Request("POST", "/api/v1/pods", {"fieldManager": "a b"}, "application/json", b"a pod")
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers the requests of each connection with the bytes of `answers`, in order; None closes the connection."""

    def __init__(self, answers: Iterable[bytes | None]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.resumed: list[bool] = []
        self._answers = iter(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if tls := writer.get_extra_info("ssl_object"):
            self.resumed.append(tls.session_reused)
        try:
            while (answer := await self._answer(reader)) is not None:
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes | None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(len(WRITE.body or b"")) if head.startswith(b"POST") else b""
        self.requests.append(head + body)
        return next(self._answers, None)


@asynccontextmanager
async def connected(*answers: bytes | None, path: str = "") -> AsyncIterator[tuple[HttpTransport, Server]]:
    """A transport and the server that it talks to."""
    found = Server(answers)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    transport = HttpTransport(Credentials(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}", token="t"))
    try:
        yield transport, found
    finally:
        await transport.close()
        server.close()
        await asyncio.sleep(0.01)  # the server's side sees the end


async def test_a_request_has_its_path_below_that_of_the_server_and_its_parts_encoded():
    async with connected(OK, OK, path="/clusters/c-1/") as (transport, server):
        await transport.exchange(WRITE)
        await transport.exchange(Request("GET", "/api/v1/pods/a b\r\nX: y", {}, ""))
    first, *headers = server.requests[0].decode().split("\r\n")
    assert first == "POST /clusters/c-1/api/v1/pods?fieldManager=a+b HTTP/1.1"
    assert {"Authorization: Bearer t", "Content-Type: application/json", "Content-Length: 5"} <= set(headers)
    assert headers[-1] == "a pod"
    assert server.requests[1].startswith(b"GET /clusters/c-1/api/v1/pods/a%20b%0D%0AX:%20y HTTP/1.1\r\n")


async def test_a_connection_is_used_again_after_each_whole_response():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n"
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK
    async with connected(chunked, early, chunked, OK) as (transport, server):
        assert (await transport.exchange(READ)).content == b"{}\n"
        assert (await transport.exchange(WRITE)).content == b"ok"
        async with transport.stream(WATCH) as (_, pieces):
            assert [piece async for piece in pieces] == [b"{}\n"]
        assert (await transport.exchange(READ)).content == b"ok"
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer", [OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), OK + OK], ids=["closed", "with another response"]
)
async def test_a_connection_is_not_used_again_if_the_server_ends_it_or_sends_more_than_was_asked_for(answer):
    async with connected(answer, OK) as (transport, server):
        assert (await transport.exchange(READ)).content == b"ok"
        await asyncio.sleep(0.05)
        assert (await transport.exchange(READ)).content == b"ok"
    assert server.connections == 2


async def test_idle_connections_are_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(http, "KEEP_ALIVE", -1.0)
    async with connected(OK, OK) as (transport, server):
        for _ in range(2):
            await transport.exchange(READ)
    assert server.connections == 2


async def test_a_read_is_repeated_if_the_idle_connection_was_closed_but_a_write_is_not():
    async with connected(OK, None, OK, None, OK) as (transport, server):
        assert (await transport.exchange(READ)).content == b"ok"
        assert (await transport.exchange(READ)).content == b"ok"
        with pytest.raises(TransportError, match="closed by the server"):
            await transport.exchange(WRITE)
    assert [request[:4] for request in server.requests] == [b"GET ", b"GET ", b"GET ", b"POST"]


@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b"220 smtp ready\r\n\r\n"],
    ids=["nothing", "half of it", "another protocol"],
)
async def test_without_a_whole_response_the_outcome_is_unknown(answer):
    async with connected(answer, None) as (transport, server):
        for request in (READ, WRITE):
            work = asyncio.create_task(transport.exchange(request))
            await asyncio.sleep(0.05)
            await transport.close()
            with pytest.raises(TransportError, match=r"closed by|invalid response"):
                await work
    assert server.connections == 2


async def test_a_cancelled_request_closes_its_connection():
    async with connected(OK[:-1], OK) as (transport, server):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport.exchange(READ), 0.05)
        assert (await transport.exchange(READ)).content == b"ok"
    assert server.connections == 2


async def test_a_silent_server_is_given_up(monkeypatch):
    monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.05)
    monkeypatch.setattr(http, "READ_TIMEOUT", 0.05)
    monkeypatch.setattr(http, "CHECK_INTERVAL", 0.02)
    async with connected(OK[:-1], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") as (transport, _):
        with pytest.raises(TransportError, match="TimeoutError"):
            await transport.exchange(READ)
        with pytest.raises(TransportError, match="TimeoutError"):
            async with transport.stream(WATCH) as (_, pieces):
                await anext(pieces)


async def test_a_server_that_sends_faster_than_is_read_has_to_wait(monkeypatch):
    monkeypatch.setattr(http, "MAX_BUFFERED", 1000)
    size = 8_000_000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    async with connected(head + b"x" * size) as (transport, _), transport.stream(WATCH) as (_, pieces):
        await asyncio.sleep(0.1)
        first = await anext(pieces)
        assert len(first) < size / 2
        assert len(first) + sum([len(piece) async for piece in pieces]) == size


async def test_a_response_is_waited_for_until_its_own_timeout(monkeypatch):
    monkeypatch.setattr(http, "CHECK_INTERVAL", 0.02)
    silent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with connected(OK, silent, OK[:-1]) as (transport, _):
        monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.05)
        await transport.exchange(READ)
        async with transport.stream(WATCH) as (_, pieces):
            waiting = asyncio.ensure_future(anext(pieces))
            await asyncio.sleep(0.1)
            assert not waiting.done(), "a quiet watch lasts longer than a request may"
            with pytest.raises(TransportError, match=r"no response within 0\.05 s"):
                await transport.exchange(READ)
            assert not waiting.done()
            waiting.cancel()
        await asyncio.sleep(0.1)
        assert transport._timer is None, "without requests in flight there is nothing to check"


async def test_a_new_connection_resumes_the_tls_session_unless_the_server_has_forgotten_it(tmp_path):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("server", "server", hosts=("localhost",))
    found, transport, port = Server([OK] * 9), None, 0
    for _ in range(2):
        server = await asyncio.start_server(found.serve, "localhost", port, ssl=authority.server_tls("server"))
        port = server.sockets[0].getsockname()[1]
        transport = transport or HttpTransport(Credentials(f"https://localhost:{port}", ca=str(authority.certificate)))
        for connections in (1, 2):
            await asyncio.gather(*[transport.exchange(READ) for _ in range(connections)])
            await transport.close()
        server.close()
        await server.wait_closed()
    assert found.resumed == [False, True, True, False, True, True]


def an_authority(folder: Path) -> Authority:
    """Return a new authority with a certificate of a server and one of a client."""
    authority = Authority(folder)
    authority.make()
    authority.sign("server", "server", hosts=("localhost",))
    authority.sign("client", "client")
    return authority


class Rotation:
    """A server that demands client certificates and whose authority is replaced, as are the client's files."""

    def __init__(self, folder: Path) -> None:
        self.authorities = [an_authority(folder / name) for name in ("old", "new")]
        self.files = {name: folder / name for name in ("ca.crt", "client.crt", "client.key")}
        self.port, self.server = 0, None

    def credentials(self) -> Credentials:
        ca, certificate, key = map(str, self.files.values())
        return Credentials(f"https://localhost:{self.port}", ca=ca, certificate=certificate, key=key)

    def issue(self, number: int, *names: str) -> None:
        """Write these files of the client, all without a name, as this authority issues them."""
        for name in names or self.files:
            content = (self.authorities[number].folder / name).read_bytes()
            self.files[name].with_suffix(".tmp").write_bytes(content)
            self.files[name].with_suffix(".tmp").rename(self.files[name])

    async def serve(self, number: int) -> None:
        """Serve with the certificate of this authority, and accept its clients only."""
        if self.server:
            self.server.close()
        context = self.authorities[number].server_tls("server")
        context.load_verify_locations(self.authorities[number].certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        self.server = await asyncio.start_server(Server([OK] * 9).serve, "localhost", self.port, ssl=context)
        self.port = self.server.sockets[0].getsockname()[1]


async def test_new_connections_trust_the_ca_and_show_the_certificate_that_the_files_have_now(tmp_path, caplog):
    rotation = Rotation(tmp_path)
    rotation.issue(0)
    await rotation.serve(0)
    transport = HttpTransport(rotation.credentials())
    assert (await transport.exchange(READ)).status == 200
    await transport.close()
    await rotation.serve(1)
    with pytest.raises(TransportError):
        await transport.exchange(READ)
    rotation.issue(1, "ca.crt", "client.crt")
    with pytest.raises(TransportError):
        await transport.exchange(READ)
    assert "using what was read before" in caplog.text, "the key is not there yet"
    rotation.issue(1, "client.key")
    assert (await transport.exchange(READ)).status == 200
    await transport.close()
    rotation.files["ca.crt"].write_text("half of a certificate")
    assert (await transport.exchange(READ)).status == 200
    await transport.close()
    await rotation.serve(0)
    with pytest.raises(TransportError):
        await transport.exchange(READ)
    rotation.server.close()


class Expiring(Server):
    """A server that rejects the certificate of a client named `old`."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown = writer.get_extra_info("ssl_object").getpeercert()["subject"]
        self._answers = itertools.repeat(UNAUTHORIZED if "old" in str(shown) else OK)
        await super().serve(reader, writer)


@pytest.mark.parametrize("by_plugin", [False, True], ids=["file", "plugin"])
async def test_after_a_rejected_certificate_no_connection_that_has_shown_it_is_used_again(tmp_path, by_plugin):
    authority = an_authority(tmp_path)
    for name in ("old", "new"):
        authority.sign(name, name)
    context = authority.server_tls("server")
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    found = Expiring(())
    server = await asyncio.start_server(found.serve, "localhost", 0, ssl=context)
    address = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    files = [tmp_path / "shown.crt", tmp_path / "shown.key"]
    texts = {
        name: [(tmp_path / name).with_suffix(file.suffix).read_bytes() for file in files] for name in ("old", "new")
    }
    shown = ["old"]
    if by_plugin:
        times = (datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=minute) for minute in itertools.count())
        plugin = Plugin(lambda: PluginAnswer("", *texts[shown[0]]), lambda: next(times))
        credentials = Credentials(address, ca=str(authority.certificate), plugin=plugin)
    else:
        credentials = Credentials(address, ca=str(authority.certificate), certificate=str(files[0]), key=str(files[1]))

    def show(name: str) -> None:
        shown[0] = name
        for file, text in zip(files, texts[name], strict=True):
            file.write_bytes(text)

    show("old")
    transport = HttpTransport(credentials)
    answers = await asyncio.gather(*[transport.exchange(READ) for _ in range(3)])
    assert {answer.status for answer in answers} == {401}
    show("new")
    assert (await transport.exchange(READ)).status == 200
    await transport.close()
    server.close()


async def test_kopf_trusts_the_ca_that_the_file_has_now(tmp_path):
    rotation = Rotation(tmp_path)
    rotation.issue(0)
    await rotation.serve(0)
    async with kopf_shim._session(rotation.credentials()).aiohttp_session as session:
        for number in (0, 1):
            await rotation.serve(number)
            rotation.issue(number)
            async with session.get(f"https://localhost:{rotation.port}/") as response:
                assert response.status == 200
            await asyncio.sleep(0.1)
    rotation.server.close()
