"""Requests to the API server and its responses: paths, JSON (orjson), lines of watches, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from trainshed.cluster import (
    ClusterError,
    Conflict,
    Denied,
    Expired,
    Invalid,
    Missing,
    NotLeading,
    Throttled,
    Unavailable,
)

from .discretion import discreet
from .transport import Answer, Broken, Request, Transport, Withheld

#: The longest line of a watch, in bytes: no object is bigger than etcd's 1.5 MiB, and JSON may inflate it.
LONGEST_LINE = 8 * 1024 * 1024
#: Characters that are kept of the server's error message.
LONGEST_WORDS = 2000
#: Status codes after which a repeated request may succeed: a new token is read, or the server recovers.
UNSETTLED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT)
JSON, MERGE_PATCH = "application/json", "application/merge-patch+json"
FIELD_MANAGER = {"fieldManager": "trainshed"}

#: Called for every request with its verb, resource and HTTP status, 0 without a response.
Listener = Callable[[str, str, int], None]
#: Returns whether this replica may write now.
Permit = Callable[[], bool]


class AlreadyExists(Conflict):
    """An object of that name exists; the caller has to check its controller."""

    reason = "AlreadyExists"


@dataclass(frozen=True, slots=True)
class Path:
    """The path of objects: `prefix` is `/api/v1` or `/apis/group/version`; an empty namespace means all namespaces."""

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
    """Requests and watches over a transport; must be closed. `under_way` counts the requests without a response."""

    def __init__(self, transport: Transport, listener: Listener = lambda _verb, _resource, _status: None) -> None:
        self._transport = transport
        self._listener = listener
        self.under_way = 0

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def call(self, verb: str, path: Path, body: object = None, query: Mapping[str, str] | None = None) -> bytes:
        """Send one request, without retries, and return the body of the response.

        Raises the errors of `trainshed.cluster`, and `AlreadyExists`.
        """
        data = None if body is None else orjson.dumps(body)
        return await self._exchange(path, Request(verb, str(path), query or {}, _kind(verb), data), body)

    async def write(self, verb: str, path: Path, body: object, permit: Permit) -> bytes:
        """Send one write, if `permit` allows it at the moment of sending; otherwise raises `NotLeading`."""
        query = {} if verb == "DELETE" else FIELD_MANAGER
        request = Request(verb, str(path), query, _kind(verb), orjson.dumps(body), permit)
        return await self._exchange(path, request, body)

    async def _exchange(self, path: Path, request: Request, body: object) -> bytes:
        status = 0
        self.under_way += 1
        try:
            answer = await self._transport.exchange(request)
            status = answer.status
        except Broken as broken:
            raise Unavailable(f"{request.verb} {path.plural}: {broken}") from broken
        except Withheld as withheld:
            raise NotLeading(
                f"{request.verb} {path.plural} was not sent: this replica no longer holds the Lease"
            ) from withheld
        finally:
            self.under_way -= 1
            self._listener(request.verb, path.plural, status)
        if status >= HTTPStatus.BAD_REQUEST:
            raise _error(answer, body)
        return answer.content

    async def watch(self, path: Path, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it; raises the errors of `call`."""
        try:
            async with self._transport.stream(Request("GET", str(path), query, JSON)) as (answer, pieces):
                self._listener("WATCH", path.plural, answer.status)
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise _error(answer)
                async for line in _lines(pieces):
                    yield line
        except Broken as broken:
            raise Unavailable(f"watching {path.plural}: {broken}") from broken


def _kind(verb: str) -> str:
    return MERGE_PATCH if verb == "PATCH" else JSON


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for count, line in enumerate(whole, 1):
            yield line
            if count % 200 == 0:
                await asyncio.sleep(0)  # a burst of events must not block the event loop
        if len(rest) > LONGEST_LINE:
            raise Unavailable("a line of the watch is too long")


def _error(answer: Answer, body: object = None) -> ClusterError:
    """Return the error of a response, with the server's message; values quoted from the request body are redacted."""
    status = answer.status
    reason, message = _status(answer.content)
    message = discreet(message, body)[:LONGEST_WORDS]
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Throttled(message, _seconds(answer.wait))
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


def _status(content: bytes) -> tuple[str, str]:
    try:
        found: Any = orjson.loads(content)
        return str(found.get("reason", "")), str(found.get("message", ""))
    except (ValueError, AttributeError):
        return "", content[:LONGEST_WORDS].decode(errors="replace")


def _denial(message: str) -> str:
    if "exceeded quota" in message:
        return "QuotaExceeded"
    if "because it is being terminated" in message:
        return "NamespaceTerminating"
    return "Forbidden"


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isdecimal() else 1.0
