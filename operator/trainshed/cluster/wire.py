"""Bytes to and from the API server: one session, JSON by orjson, and its errors turned into ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from . import ClusterError, Conflict, Denied, Expired, Invalid, Missing, Throttled, Unavailable
from .credentials import Credentials

#: Seconds: a request as a whole, making a connection, and a watch without a byte (bookmarks come every minute or so).
REQUEST, CONNECT, SILENCE = 30.0, 5.0, 90.0
GOODBYE = 0.25
#: The longest line of a watch, in bytes: no object is bigger than etcd's 1.5 MiB, and JSON may inflate it.
LONGEST_LINE = 8 * 1024 * 1024
#: Answers after which the same request may do better, as a new token is read or the server recovers.
UNSETTLED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT)
MERGE_PATCH = "application/merge-patch+json"
FIELD_MANAGER = {"fieldManager": "trainshed"}

#: Told of every request: verb, resource, and the HTTP status, 0 for none.
Listener = Callable[[str, str, int], None]


class AlreadyExists(Conflict):
    """There is an object of that name; whose it is, is for the caller to find out."""

    reason = "AlreadyExists"


@dataclass(frozen=True, slots=True)
class Path:
    """Where objects live: `prefix` is `/api/v1` or `/apis/group/version`; an empty namespace means all of them."""

    prefix: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        parts = (self.plural, self.name, self.subresource)
        return self.prefix + within + "".join(f"/{part}" for part in parts if part)


class Wire:
    """The one connection pool; to be closed at the end."""

    def __init__(self, credentials: Credentials, listener: Listener = lambda _verb, _resource, _status: None) -> None:
        self._credentials = credentials
        self._tell = listener
        connector = aiohttp.TCPConnector(limit=0, ssl=credentials.tls() or False)
        timeout = aiohttp.ClientTimeout(total=REQUEST, connect=CONNECT)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, json_serialize=_text)

    async def close(self) -> None:
        """Let go of all connections; those that were broken off get a moment for the server's goodbye by TLS."""
        await self._session.close()
        await asyncio.sleep(GOODBYE)

    async def call(self, verb: str, path: Path, body: object = None, query: Mapping[str, str] | None = None) -> bytes:
        """One request, once; the answer's body. Raises what `trainshed.cluster` draws, and `AlreadyExists`."""
        data = None if body is None else orjson.dumps(body)
        status = 0
        try:
            headers = self._headers(verb)
            url = self._credentials.server + str(path)
            async with self._session.request(verb, url, params=query, data=data, headers=headers) as answer:
                status, content = answer.status, await answer.read()
                if status >= HTTPStatus.BAD_REQUEST:
                    raise _error(status, content, answer.headers.get("Retry-After", ""))
                return content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{verb} {path.plural}: {type(error).__name__}: {error}") from error
        finally:
            self._tell(verb, path.plural, status)

    async def watch(self, path: Path, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, until the server ends it. Raises as `call` does."""
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT, sock_read=SILENCE)
        url = self._credentials.server + str(path)
        try:
            headers = self._headers("GET")
            async with self._session.get(url, params=query, headers=headers, timeout=timeout) as answer:
                self._tell("WATCH", path.plural, answer.status)
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise _error(answer.status, await answer.read(), answer.headers.get("Retry-After", ""))
                try:
                    async for line in _lines(answer.content):
                        yield line
                finally:
                    _drop(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"watching {path.plural}: {type(error).__name__}: {error}") from error

    def _headers(self, verb: str) -> dict[str, str]:
        kind = MERGE_PATCH if verb == "PATCH" else "application/json"
        return {"Content-Type": kind, "Accept": "application/json", **self._credentials.headers()}


def _drop(answer: aiohttp.ClientResponse) -> None:
    # A polite goodbye by TLS waits for the other side's, up to half a minute, and outlives the pool that began it.
    if answer.connection and answer.connection.transport:
        answer.connection.transport.abort()


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for count, line in enumerate(whole, 1):
            yield line
            if count % 200 == 0:
                await asyncio.sleep(0)  # a burst of events must not keep everybody else waiting
        if len(rest) > LONGEST_LINE:
            raise Unavailable("a line of a watch is too long to be true")


def _text(value: object) -> str:
    return orjson.dumps(value).decode()


def _error(status: int, content: bytes, wait: str) -> ClusterError:
    reason, message = _said(content)
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Throttled(message, _seconds(wait))
    if status == HTTPStatus.FORBIDDEN:
        return Denied(message, _denial(message))
    if status in UNSETTLED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(f"{status}: {message}", "Unauthorized" if status == HTTPStatus.UNAUTHORIZED else "")
    known: dict[int, type[ClusterError]] = {
        HTTPStatus.NOT_FOUND: Missing,
        HTTPStatus.CONFLICT: Conflict,
        HTTPStatus.GONE: Expired,
    }
    return known.get(status, Invalid)(message)


def _said(content: bytes) -> tuple[str, str]:
    try:
        found: Any = orjson.loads(content)
        return str(found.get("reason", "")), str(found.get("message", ""))[:2000]
    except (ValueError, AttributeError):
        return "", content[:200].decode(errors="replace")


def _denial(message: str) -> str:
    if "exceeded quota" in message:
        return "QuotaExceeded"
    if "because it is being terminated" in message:
        return "NamespaceTerminating"
    return "Forbidden"


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isdecimal() else 1.0
