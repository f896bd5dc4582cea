"""A message goes to the webhook that is meant, over verified TLS, and nowhere else; no secret is in what is said."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trainshed.notify import sending
from trainshed.notify.addresses import is_allowed, may_connect, networks
from trainshed.notify.sending import NotSent, WebhookCourier
from trainshed.notify.webhooks import BadWebhook, Webhook, read_webhook

LOOPBACK = networks(["127.0.0.0/8"])
REFUSED = (
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1%eth0", "fd00:ec2::254", "fc00::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1"),
    *("::ffff:169.254.169.254", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:a00:1::"),
    *("2001::1", "2001:db8::1"),
)


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_of_the_internet_is_refused_unless_it_is_allowed(address: str):
    assert not may_connect(address, ())
    whole = ip_address(address.partition("%")[0])
    assert not is_allowed(address, ())
    assert may_connect(address, networks(["0.0.0.0/0", "::/0"])) == (whole.version in (4, 6))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_an_address_of_the_internet_is_not_refused(address: str):
    assert may_connect(address, ())
    assert not is_allowed(address, networks(["10.0.0.0/8", "fd00::/8"]))


def test_what_nat64_translates_to_is_what_must_be_allowed():
    assert may_connect("64:ff9b::a00:1", networks(["10.0.0.0/8"]))
    assert not may_connect("64:ff9b::a00:1", networks(["64:ff9b::/96"]))


@asynccontextmanager
async def receiver(answer: bytes, tls: ssl.SSLContext | None = None, *, hold: bool = False) -> AsyncIterator:
    """A server on loopback that keeps what it gets, and answers each request with these bytes."""
    got: list[bytes] = []
    served: list[asyncio.Task] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            got.append(head + await reader.readexactly(size))
            if not hold:
                writer.write(answer)
                await writer.drain()
            await reader.read()
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], got
    finally:
        server.close()
        await asyncio.gather(*served)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def said(webhook: Webhook, allowed: tuple = LOOPBACK) -> NotSent:
    """Return why a message is not sent."""
    with pytest.raises(NotSent) as found:
        await sending.post(webhook, b"{}", allowed)
    text = str(found.value)
    assert "secret" not in text
    assert "127.0.0.1" not in text
    return found.value


async def test_a_message_is_one_post_with_its_headers():
    async with receiver(OK) as (port, got):
        webhook = Webhook(f"http://127.0.0.1:{port}/a%2Fsecret?x=%41", headers={"Authorization": "Bearer t"})
        await sending.post(webhook, b'{"a":1}', LOOPBACK)
    (request,) = got
    assert request.startswith(b"POST /a%2Fsecret?x=%41 HTTP/1.1\r\n")
    assert b"Authorization: Bearer t\r\n" in request
    assert b"Content-Type: application/json\r\n" in request
    assert request.endswith(b'\r\n\r\n{"a":1}')


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
async def test_a_private_address_is_not_connected_to_in_whatever_form(host: str):
    async with receiver(OK) as (port, got):
        for scheme in "http", "https":
            error = await said(Webhook(f"{scheme}://{host}:{port}/secret"), ())
            assert not error.again or "not resolved" in str(error)
        assert got == []


async def test_the_address_that_is_connected_to_is_checked_and_not_that_of_an_earlier_lookup(
    monkeypatch: pytest.MonkeyPatch,
):
    answers = [("93.184.216.34",), ("127.0.0.1",)]

    async def rebinding(_self: object, _host: str, port: int = 0, **_more: object) -> list[dict]:
        return [
            {"hostname": "x", "host": address, "port": port, "family": socket.AF_INET, "proto": 6, "flags": 0}
            for address in answers[1]
        ]

    monkeypatch.setattr("aiohttp.resolver.ThreadedResolver.resolve", rebinding)
    monkeypatch.setattr("aiohttp.connector.DefaultResolver.resolve", rebinding)
    async with receiver(OK) as (port, got):
        error = await said(Webhook(f"https://rebinding.example.com:{port}/secret"), ())
    assert (str(error), got) == ("its host has no address of the Internet or allowed", [])


@pytest.mark.parametrize(
    ("answer", "words", "again"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
            "it answers 302: redirects are not",
            False,
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it answers 404", False),
        (b"HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n", "it answers 500", False),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", "it answers 503", True),
        (b"HTTP/1.1 429 Many\r\nRetry-After: 99999\r\nContent-Length: 0\r\n\r\n", "it answers 429", True),
        (b"HTTP/1.1 429 Many\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", "it answers 429", True),
        (
            b"HTTP/1.1 429 Many\r\nRetry-After: " + b"9" * 400 + b"\r\nContent-Length: 0\r\n\r\n",
            "it answers 429",
            True,
        ),
        (b"SSH-2.0-x\r\n", "it does not answer as HTTP says", False),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "it does not answer as HTTP says", False),
    ],
)
async def test_what_a_receiver_answers_says_whether_it_may_be_asked_again(answer: bytes, words: str, again: bool):
    async with receiver(answer) as (port, got):
        error = await said(Webhook(f"http://127.0.0.1:{port}/secret"))
        assert (str(error).startswith(words), error.again, len(got)) == (True, again, 1)
        assert error.wait <= sending.MOST_WAIT


@pytest.mark.parametrize("host", ["a..b", ".", "x" * 64, "1.2.3", "999.999.999.999", "[::1]x"])
async def test_a_host_that_is_none_is_said_to_be_none_and_not_asked_again(host: str):
    error = await said(Webhook(f"https://{host}/secret"))
    assert (str(error), error.again) == ("the host of its url is none", False)


async def test_a_huge_answer_is_not_read():
    async with receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 1_000_000) as (port, _):
        await sending.post(Webhook(f"http://127.0.0.1:{port}/"), b"{}", LOOPBACK)


async def test_a_receiver_that_does_not_answer_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sending, "TIMEOUT", 0.2)
    async with receiver(OK, hold=True) as (port, _):
        error = await said(Webhook(f"http://127.0.0.1:{port}/secret"))
    assert (error.again, "does not answer within" in str(error)) == (False, True)


async def test_a_receiver_that_is_not_there_is_asked_again():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        error = await said(Webhook(f"http://127.0.0.1:{found.getsockname()[1]}/secret"))
    assert (error.again, str(error)) == (True, "it cannot be connected to")
    error = await said(Webhook("https://nowhere.invalid/secret"))
    assert (error.again, str(error)) == (True, "its name is not resolved")


async def test_a_certificate_that_is_not_trusted_is_refused(certificate: Callable[[], ssl.SSLContext]):
    async with receiver(OK, certificate()) as (port, got):
        error = await said(Webhook(f"https://127.0.0.1:{port}/secret"))
        assert (error.again, got) == (False, [])
        assert str(error) == "its certificate is not valid for it, or not trusted"


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[[], ssl.SSLContext]:
    """A TLS server with a certificate of its own."""

    def make() -> ssl.SSLContext:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(1).not_valid_before(now - timedelta(days=1))
        found = builder.not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
        path = tmp_path / "both.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(found.public_bytes(serialization.Encoding.PEM) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    return make


URL = "https://hooks.example.com/secret"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (f"{URL}\n", Webhook(URL)),
        (URL.replace("https", "HTTPS"), Webhook(URL.replace("https", "HTTPS"))),
        (f"url: {URL}\nformat: slack\n", Webhook(URL, "slack")),
        (
            f'{{"url": "{URL}", "headers": {{"X-Token": "t"}}, "namespaces": ["ml"]}}',
            Webhook(URL, headers={"X-Token": "t"}, namespaces=("ml",)),
        ),
        (f"url: {URL}\nnamespaces: [other]\n", None),
    ],
)
async def test_a_webhook_is_read_from_its_file(content: str, found: Webhook | None, tmp_path: Path):
    (tmp_path / "team").write_text(content)
    assert WebhookCourier(tmp_path, ()).find("team", "ml") == found
    assert read_webhook(tmp_path, "other", "ml") is None


@pytest.mark.parametrize(
    "content",
    [
        *("", "secret", "[secret]", "url: 7", "\xff", "ftp://secret/", "https:///secret", "https://u:secret@x/"),
        *(f"{URL}\nsecret", f"url: {URL}\nformat: secret", f"url: {URL}\nsecret: x", "http://x:0/", "https://x:99999/"),
        *(f'url: {URL}\nheaders: {{"{name}": secret}}' for name in ("Host", "content-length", "a b", "a\\n")),
        *(f'url: {URL}\nheaders: {{X: "{value}"}}' for value in ("a\\r\\nb", "\\u0001")),
        "x" * 20_000,
        "https://[secret/",
        *("url: !!bool secret", "url: !!timestamp secret", "url: !!int ''", "!!float '': 1", "=: secret"),
        *("[" * 16_000, "- " * 8_000, "&secret [*secret]", "&a\nurl: *a", "? [secret]\n: b", "<<: 1\nurl: secret"),
        *(f"url: {URL}\nurl: {URL}", f"url: {URL}\n---\nurl: {URL}", "---\n", "\0" * 100, f"{URL}\0", f"\xfe\xff{URL}"),
        *(f"url: {URL}\nheaders: {{X: [secret]}}", f"url: {URL}\nnamespaces: secret"),
    ],
)
async def test_a_file_that_is_of_no_use_is_refused_and_not_quoted(content: str, tmp_path: Path):
    (tmp_path / "team").write_bytes(content.encode("latin-1"))
    with pytest.raises(BadWebhook) as error:
        read_webhook(tmp_path, "team", "ml")
    assert "secret" not in str(error.value)
    assert "example" not in str(error.value)


async def test_a_name_is_no_path(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text(URL)
    for name in ("../out", "", ".", "/etc/passwd", "..data", "A", "a" * 64):
        assert read_webhook(tmp_path / "in", name, "ml") is None
    with pytest.raises(BadWebhook, match="cannot be read"):
        read_webhook(tmp_path, "in", "ml")
