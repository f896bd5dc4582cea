"""Requests to the API server: what a transport sends, paths, watches, and the errors of answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
import orjson

from trainshed.client import (
    UNAUTHORIZED,
    UNCALLED,
    AdmissionDenied,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeader,
    TooLarge,
    TooManyRequests,
    Unavailable,
)

from .redaction import redact


class TransportError(Exception):
    """There was no complete response: the request may or may not have been carried out."""


class ResponseTooLarge(TransportError):
    """The response is longer than the request allows."""


class WriteNotPermitted(Exception):
    """The request may no longer be sent; nothing was sent."""


def always_permitted() -> bool:
    """Return True."""
    return True


#: The longest response, in bytes, but for lists in one piece: any object. The API server stores objects of 1.5 MiB
#: unless etcd's --max-request-bytes says otherwise, at most 10 MiB, and JSON has up to six bytes for one of them.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


class Request(msgspec.Struct, frozen=True):
    """A request: `path` begins with a slash, `kind` is the content type of the body.

    The response may have `most` bytes, unless it is a stream.

    A body is sent only if `permit` returns True. It is called at the moment at which the body is written to the
    connection: connecting takes time, and leadership may be lost meanwhile.
    """

    verb: str
    path: str
    query: Mapping[str, str]
    kind: str
    body: bytes | None = None
    permit: Callable[[], bool] = always_permitted
    most: int = MAX_RESPONSE_BYTES


class Answer(msgspec.Struct, frozen=True):
    """A response: the HTTP status, the whole body, and the value of `Retry-After`."""

    status: int
    content: bytes = b""
    wait: str = ""


#: The response that begins a stream, and its chunks; a response of 400 or above is complete, without chunks.
Stream = tuple[Answer, AsyncIterator[bytes]]


class Transport(Protocol):
    """Sends requests; raises only `TransportError` and `WriteNotPermitted`."""

    async def exchange(self, request: Request) -> Answer:
        """Send one request, without retries, and return the whole response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send one request whose response lasts until the server ends it or the context exits."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


#: The longest line of a watch that is kept, in bytes, and what is kept of a longer one. Go's JSON has six bytes for
#: each `<` and each control character, so an object of 1.5 MiB makes a line of 9 MiB and a little.
MAX_LINE_BYTES, HEAD_BYTES = 16 * 1024 * 1024, 4096
#: The most bytes of a line of a log; the rest of a longer one follows as further lines, none of which begins within a
#: character of UTF-8. The most bytes of the time before a line.
MAX_LOG_LINE, MAX_STAMP, MAX_CHARACTER, CONTINUATION = 64 * 1024, 64, 4, 0x80
#: Lines, and bytes, after which a burst of events lets other tasks run.
YIELD_LINES, YIELD_BYTES = 200, 1024 * 1024
#: Pages of lists that are read at a time: all informers list when the operator starts.
MAX_PAGES = 8
#: How the API server begins the messages of refusals whose HTTP code others choose: a webhook any from 400 on
#: (apiserver/pkg/admission/plugin/webhook/errors), a policy 401, 403, 413 or 422 (.../plugin/policy/validating). A
#: webhook that cannot be called is an error of the server ("Internal error occurred: failed calling webhook …").
WEBHOOK = re.compile(r'admission webhook "[^"]*" denied the request')
NOT_CALLED = re.compile(r'Internal error occurred: failed calling webhook "')
POLICY = re.compile(r"""\S+ "[^"]*" is forbidden: ValidatingAdmissionPolicy '""")
#: Characters that are kept of the server's error message once it is redacted, and bytes that are read of one that is no
#: JSON.
MAX_ERROR_LENGTH, MAX_ERROR_BYTES = 2000, 16_384
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


class Path(msgspec.Struct, frozen=True):
    """The path of objects: `prefix` is `/api/v1` or `/apis/group/version`; an empty namespace means all namespaces."""

    prefix: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        path = f"{self.prefix}{within}/{self.plural}"
        return "/".join(part for part in (path, self.name, self.subresource) if part) if self.name else path


class LongLine(msgspec.Struct, frozen=True):
    """A line of a watch of more than MAX_LINE_BYTES: its beginning, and how many bytes it has."""

    head: bytes
    size: int


class RestClient:
    """Requests and watches over a transport; must be closed. `under_way` counts the requests without a response.

    `skipped` is called with the resource for each line of a watch that is too long.
    """

    def __init__(
        self,
        transport: Transport,
        listener: Listener = lambda _verb, _resource, _status: None,
        skipped: Callable[[str], None] = lambda _resource: None,
    ) -> None:
        self._transport = transport
        self._listener = listener
        self._skipped = skipped
        self._pages = asyncio.Semaphore(MAX_PAGES)
        self.under_way = 0

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def call(
        self, verb: str, path: Path, body: object = None, query: Mapping[str, str] | None = None
    ) -> Awaitable[bytes]:
        """Send one request, without retries, and return the body of the response.

        Raises the errors of `trainshed.client`, and `AlreadyExists`.
        """
        data = None if body is None else orjson.dumps(body)
        return self._exchange(path, Request(verb, str(path), query or {}, _content_type(verb), data))

    async def read_page(self, path: Path, query: Mapping[str, str], most: int) -> bytes:
        """Return a page of a list; raises the errors of `call`, and `TooLarge` if it has more than `most` bytes."""
        async with self._pages:
            return await self._exchange(path, Request("GET", str(path), query, JSON, most=most))

    def write(self, verb: str, path: Path, body: object, permit: Permit) -> Awaitable[bytes]:
        """Send one write, if `permit` allows it at the moment of sending; otherwise raises `NotLeader`.

        While the response is awaited only the JSON of the body is kept, which may take much less memory.
        """
        query = {} if verb == "DELETE" else FIELD_MANAGER
        request = Request(verb, str(path), query, _content_type(verb), orjson.dumps(body), permit)
        return self._exchange(path, request)

    async def _exchange(self, path: Path, request: Request) -> bytes:
        status = 0
        self.under_way += 1
        try:
            answer = await self._transport.exchange(request)
            status = answer.status
        except TransportError as broken:
            error = TooLarge if isinstance(broken, ResponseTooLarge) else Unavailable
            raise error(f"{request.verb} {path.plural}: {broken}") from broken
        except WriteNotPermitted as withheld:
            raise NotLeader(
                f"{request.verb} {path.plural} was not sent: this replica no longer holds the Lease"
            ) from withheld
        finally:
            self.under_way -= 1
            self._listener(request.verb, path.plural, status)
        if status >= HTTPStatus.BAD_REQUEST:
            raise _error(answer, request.body)
        return answer.content

    async def watch(self, path: Path, query: Mapping[str, str]) -> AsyncGenerator[bytes | LongLine, None]:
        """Yield the lines of a watch until the server ends it; raises the errors of `call`.

        The first one is empty: the server has accepted the watch.
        """
        try:
            async with self._transport.stream(Request("GET", str(path), query, JSON)) as (answer, pieces):
                self._listener("WATCH", path.plural, answer.status)
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise _error(answer)
                yield b""
                async for line in _lines(pieces):
                    if isinstance(line, LongLine):
                        self._skipped(path.plural)
                    yield line
        except TransportError as broken:
            raise Unavailable(f"watching {path.plural}: {broken}") from broken

    async def log(self, path: Path, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a log, the last one also if it has no end yet; a long one comes as several lines.

        Raises the errors of `call`, and `Unavailable` also after some time without a line.
        """
        lines = LogLines(stamped=query.get("timestamps") == "true")
        async with aclosing(self.log_pieces(path, query)) as pieces:
            async for piece in pieces:
                for line in lines.of(piece):
                    yield line
        if rest := lines.rest():
            yield rest

    async def log_pieces(self, path: Path, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield a log as it arrives, cut anywhere; the first piece is empty: the server has accepted the request.

        Raises the errors of `log`.
        """
        try:
            async with self._transport.stream(Request("GET", str(path), query, JSON)) as (answer, pieces):
                self._listener("GET", path.plural, answer.status)
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise _error(answer)
                yield b""
                async for piece in pieces:
                    yield piece
        except TransportError as broken:
            raise Unavailable(f"reading the log: {broken}") from broken


class LogLines:
    """Cuts a log into lines of at most MAX_LOG_LINE bytes; each part of a longer one has the time of the first."""

    def __init__(self, *, stamped: bool) -> None:
        self._stamped = stamped
        self._start = b""
        self._rest = bytearray()

    def of(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines, and the parts of lines, that the next piece of the log completes."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield from self._add(end)
            yield self.rest()
        yield from self._add(rest)

    def rest(self) -> bytes:
        """Return what there is of the last line, and begin the next one; empty without one."""
        line = self._start + self._rest
        self._start, self._rest = b"", bytearray()
        return line

    def _add(self, text: bytes) -> Iterator[bytes]:
        """Add text to the last line; yield parts of it while it is too long."""
        self._rest += text
        while len(self._rest) > MAX_LOG_LINE:
            most = MAX_LOG_LINE
            while most > MAX_LOG_LINE - MAX_CHARACTER + 1 and self._rest[most] & 0xC0 == CONTINUATION:
                most -= 1
            yield self._start + self._rest[:most]
            if self._stamped and not self._start:
                self._start = bytes(self._rest[:MAX_STAMP].partition(b" ")[0]) + b" "
            del self._rest[:most]


def _content_type(verb: str) -> str:
    return MERGE_PATCH if verb == "PATCH" else JSON


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes | LongLine]:
    """Yield the whole lines; of one that is too long no more than its beginning is kept."""
    kept: list[bytes] = []
    size = count = passed = 0
    async for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield _line(kept, size + len(end), end)
            kept, size, count, passed = [], 0, count + 1, passed + size + len(end)
            if count >= YIELD_LINES or passed >= YIELD_BYTES:
                count = passed = 0
                await asyncio.sleep(0)  # a burst of events must not block the event loop
        size += len(rest)
        if size <= MAX_LINE_BYTES:
            kept.append(rest)
        else:
            kept = [b"".join((*kept, rest[:HEAD_BYTES]))[:HEAD_BYTES]]


def _line(kept: list[bytes], size: int, end: bytes) -> bytes | LongLine:
    if size <= MAX_LINE_BYTES:
        return b"".join((*kept, end))
    return LongLine(b"".join((*kept, end[:HEAD_BYTES]))[:HEAD_BYTES], size)


def is_unauthenticated(answer: Answer) -> bool:
    """Return whether the server has rejected the credentials; a webhook or a policy may answer with 401 as well."""
    return answer.status == HTTPStatus.UNAUTHORIZED and not _denied_by(_status(answer.content)[1])


def _error(answer: Answer, body: bytes | None = None) -> ApiError:
    """Return the error of a response, with the server's message; values quoted from the request body are redacted."""
    status = answer.status
    reason, said = _status(answer.content)
    message = redact(said, orjson.loads(body) if body else None)[:MAX_ERROR_LENGTH]
    denied_by = _denied_by(said)
    if denied_by and status != HTTPStatus.TOO_MANY_REQUESTS:
        return AdmissionDenied(message, denied_by)
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(message, _seconds(answer.wait), from_webhook=bool(denied_by))
    if status == HTTPStatus.FORBIDDEN:
        return Forbidden(message, _denial(said))
    if status in UNSETTLED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        uncalled = UNCALLED if NOT_CALLED.match(said) else ""
        return Unavailable(f"{status}: {message}", UNAUTHORIZED if status == HTTPStatus.UNAUTHORIZED else uncalled)
    known: dict[int, type[ApiError]] = {
        HTTPStatus.NOT_FOUND: NotFound,
        HTTPStatus.CONFLICT: Conflict,
        HTTPStatus.GONE: Gone,
    }
    return known.get(status, Invalid)(message)


def _status(content: bytes) -> tuple[str, str]:
    try:
        found: Any = orjson.loads(content)
        return str(found.get("reason", "")), str(found.get("message", ""))
    except (ValueError, AttributeError):
        return "", content[:MAX_ERROR_BYTES].decode(errors="replace")


def _denied_by(message: str) -> str:
    """Return the reason of a refusal by an admission webhook or policy, an empty one for all other messages."""
    if WEBHOOK.match(message):
        return "DeniedByWebhook"
    return "DeniedByPolicy" if POLICY.match(message) else ""


def _denial(message: str) -> str:
    if "exceeded quota" in message:
        return "QuotaExceeded"
    if "because it is being terminated" in message:
        return "NamespaceTerminating"
    return "Forbidden"


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isdecimal() else 1.0
