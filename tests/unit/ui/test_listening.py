"""How the servers of the page listen: what is said of a port that is taken, and of what is no HTTP."""

from __future__ import annotations

import asyncio
import errno
import gzip
import logging
import socket

import pytest
from aiohttp import web

from trainshed.client.transport import RestClient
from trainshed.memory.in_process import MemoryTransport
from trainshed.ui import listening as module
from trainshed.ui.listening import MalformedRequests, listening
from trainshed.ui.proxy_headers import ProxyHeaders
from trainshed.ui.team import Team
from trainshed.ui.team_server import TeamServer, TeamSettings
from vendored_scripts import LIBRARIES, digest


async def test_a_port_that_is_taken_is_said_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError) as error:  # noqa: PT011 - the message is compared below
            async with listening(web.Application(), "127.0.0.1", port, 0.1):
                pass
    said = f"Port {port} is in use by another program. Choose another one with --port, or end that program."
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "Port 80 may not be used by you. Choose one above 1023 with --bind-address."),
        (errno.EADDRNOTAVAIL, "This machine does not have the address 10.0.0.1. Choose one that it has with --bind-"),
        (errno.EIO, "[Errno 5] what it is"),
    ],
)
async def test_why_a_port_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch, number: int, said: str):
    async def start(_: web.TCPSite) -> None:
        raise OSError(number, "what it is")

    monkeypatch.setattr(web.TCPSite, "start", start)
    with pytest.raises(OSError) as error:  # noqa: PT011 - the message is compared below
        async with listening(web.Application(), "10.0.0.1", 80, 0.1, "--bind-address"):
            pass
    assert str(error.value).startswith(said)


async def test_malformed_requests_are_counted_and_said_once_a_minute_without_what_they_contain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    counted = MalformedRequests()
    monkeypatch.setattr(module, "MALFORMED", counted)
    monkeypatch.setattr(logging.getLogger("aiohttp.server"), "filters", [])
    async with listening(web.Application(), "127.0.0.1", 0, 0.1) as port:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nsecret\x00 nonsense\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.0 400")
            writer.close()
    assert counted.count == 3
    assert caplog.messages == ["malformed requests that were refused since the start: 1"]
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("error", "is_said"), [(None, True), (ValueError(), True), (ConnectionResetError(), False)])
def test_faults_are_said_but_not_that_a_browser_has_left(error: Exception | None, *, is_said: bool):
    about = (type(error), error, None) if error else None
    record = logging.LogRecord("aiohttp.server", logging.ERROR, "", 0, "a fault", (), about)
    counted = MalformedRequests()
    assert (counted.filter(record), counted.count) == (is_said, 0)


def test_what_browsers_load_of_others_stays_small_and_is_what_was_built():
    vendored = {name: (module.STATIC / name).read_bytes() for name in LIBRARIES}
    assert {name: digest(content) for name, content in vendored.items()} == {
        name: library.digest for name, library in LIBRARIES.items()
    }
    assert {path.name for path in module.STATIC.glob("*.min.*")} == set(LIBRARIES)
    assert sum(map(len, vendored.values())) <= 60_000
    assert sum(len(gzip.compress(content)) for content in vendored.values()) <= 25_000


async def answer(_site: object, _request: web.Request) -> web.Response:
    return web.Response()


async def test_the_page_of_a_team_says_where_it_is(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    team = Team(lambda _: RestClient(MemoryTransport(None)), lambda feed, _: feed, 1)
    settings = TeamSettings(ProxyHeaders("X-User", "", None), base="/trainshed")
    async with TeamServer(team, {"/": answer}, settings).served(("127.0.0.1", 0), ("127.0.0.1", 0)):
        assert "below /trainshed/ for the proxy, and probes at port" in caplog.text
