"""A tunnel through a proxy: what is asked, and what a refusal says."""

from __future__ import annotations

import asyncio
import base64

import pytest

from trainshed.client.tunnel import open_tunnel


async def asked(answer: bytes, host: str, login: str = "") -> bytes:
    """Open a tunnel through a proxy that answers this; return what it was asked."""
    heard = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        (await open_tunnel(f"http://{login}127.0.0.1:{port}", host, 6443)).close()
    return heard[0]


async def test_the_proxy_is_asked_for_the_server_and_gets_its_own_password():
    request = await asked(b"HTTP/1.1 200 OK\r\n\r\n", "fd00::1", "jane:a%40b@")
    login = base64.b64encode(b"jane:a@b")
    head = b"CONNECT [fd00::1]:6443 HTTP/1.1\r\nHost: [fd00::1]:6443\r\nProxy-Authorization: Basic %s\r\n\r\n"
    assert request == head % login
    assert b"Authorization" not in await asked(b"HTTP/1.1 200 OK\r\n\r\n", "example.com")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refuses the connection: 'HTTP/1.1 407 Proxy"),
        (b"\r\n\r\n", "refuses the connection: ''"),
        (b"", "does not answer in HTTP"),
        (b"x" * 40_000, "does not answer in HTTP"),
    ],
)
async def test_a_refusal_names_the_proxy_and_its_answer(answer, problem):
    with pytest.raises(ConnectionError, match=rf"the proxy 127\.0\.0\.1 {problem}"):
        await asked(answer, "example.com")
