"""Sends a message to a webhook: by verified TLS, to allowed addresses, without redirects, and without its answer."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from .addresses import Network, is_allowed, may_connect
from .webhooks import Webhook, read_webhook

#: Seconds for a whole request, and for its connection.
TIMEOUT, CONNECT_TIMEOUT = 10.0, 5.0
#: The longest wait in seconds that a receiver may ask for.
MOST_WAIT = 60.0
#: The answers of a receiver that has not taken the message: it has too many, or is not available.
LATER = (429, 503)


class NotSent(Exception):
    """A message was not taken. The words name no address and no URL, which has the secret of the webhook.

    `again` is True only if the receiver has certainly not got it; then `wait` is how many seconds it asks to wait.
    """

    def __init__(self, words: str, *, again: bool = False, wait: float = 0.0) -> None:
        super().__init__(words)
        self.again, self.wait = again, wait


class NotAllowed(OSError):
    """The address that would be connected to is not allowed."""


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


async def post(webhook: Webhook, body: bytes, allowed: Sequence[Network]) -> None:
    """Send a message once; raises `NotSent`.

    Each address is checked when its socket is made: what a name means may change between a check and a connection.
    """
    refused: list[str] = []
    plain = webhook.parts.scheme == "http"

    def make_socket(found: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = found
        permitted = is_allowed if plain else may_connect
        if not permitted(str(address[0]), allowed):
            refused.append(address[0])
            raise NotAllowed
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        ssl=_tls(), force_close=True, use_dns_cache=False, socket_factory=make_socket, limit=1
    )
    try:
        await _request(connector, webhook, body)
    except aiohttp.ClientConnectorError as error:
        if refused and isinstance(error.os_error, NotAllowed):
            where = "that is allowed for http (--notify-allow)" if plain else "of the Internet or allowed"
            raise NotSent(f"its host has no address {where}") from None
        raise NotSent(_why_not_connected(error), again=not _is_untrusted(error)) from None


class WebhookCourier:
    """Finds webhooks in a folder, and sends to those in `allowed` networks besides the Internet."""

    def __init__(self, folder: Path, allowed: Sequence[Network]) -> None:
        self._folder, self._allowed = folder, allowed

    def find(self, name: str, namespace: str) -> Webhook | None:
        """Return a webhook for jobs of a namespace, None if there is none; raises `BadWebhook`."""
        return read_webhook(self._folder, name, namespace)

    async def post(self, webhook: Webhook, body: bytes) -> None:
        """Send a message once; raises `NotSent`."""
        await post(webhook, body, self._allowed)


async def _request(connector: aiohttp.TCPConnector, webhook: Webhook, body: bytes) -> None:
    headers = {**webhook.headers, "Content-Type": "application/json", "User-Agent": f"trainshed/{version('trainshed')}"}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT, connect=CONNECT_TIMEOUT)
    session = aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
    )
    try:
        async with session:
            url = URL(webhook.url, encoded=True)
            async with session.post(url, data=body, headers=headers, allow_redirects=False, timeout=timeout) as answer:
                _judge(answer.status, answer.headers.get("Retry-After", ""))
    except aiohttp.ConnectionTimeoutError:
        raise NotSent(f"it cannot be connected to within {CONNECT_TIMEOUT:.0f} s", again=True) from None
    except TimeoutError:
        raise NotSent(f"it does not answer within {TIMEOUT:.0f} s") from None
    except aiohttp.ClientConnectorError:
        raise
    except ValueError:  # no name of a host in DNS, or no address
        raise NotSent("the host of its url is none") from None
    except (aiohttp.ClientError, OSError):
        raise NotSent("it does not answer as HTTP says, or the connection was lost") from None


def _judge(status: int, retry_after: str) -> None:
    if 200 <= status < 300:  # noqa: PLR2004 - RFC 9110
        return
    if 300 <= status < 400:  # noqa: PLR2004 - RFC 9110
        raise NotSent(f"it answers {status}: redirects are not followed")
    wait = 0.0
    with suppress(ValueError):
        wait = float(min(max(0, int(retry_after)), MOST_WAIT))  # an int of any size is no float
    raise NotSent(f"it answers {status}", again=status in LATER, wait=wait)


def _is_untrusted(error: aiohttp.ClientConnectorError) -> bool:
    return isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError)


def _why_not_connected(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not resolved"
    if _is_untrusted(error):
        return "its certificate is not valid for it, or not trusted"
    return "it cannot be connected to"
