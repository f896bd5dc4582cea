"""kopf and its handlers: a second watch of the jobs, and kopf is restarted when it fails or hangs.

A job of which kopf has seen a version that the operator's own watch has not delivered is read and reconciled, so that a
silent watch does no harm. Trainshed uses no handlers of kopf that create, update, delete, time or index: they would
write to users' jobs or keep stale copies (docs/decisions/kopf.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus

import aiohttp
import msgspec

from trainshed import process
from trainshed.api.framework import Framework
from trainshed.api.job import Document, JobKey
from trainshed.client import lists
from trainshed.client.credentials import Credentials, TokenSource
from trainshed.client.transport import HEAD_BYTES, MAX_LINE_BYTES, MAX_RESPONSE_BYTES

with process.modules_hidden("kubernetes", "kubernetes_asyncio", "pykube"):
    import kopf  # it imports these clients where they are installed, 10 MB, for types that nothing here gives it

#: Seconds before kopf is restarted after an error; the operator's own informers deliver the same events meanwhile.
RESTART_DELAY = 5.0
#: Seconds between two bookmarks for kopf in place of events that the cache has.
BOOKMARK_INTERVAL = 1.0
#: Seconds that kopf waits for the operator's informer, which usually has an event first.
INFORMER_DELAY = 0.2
#: The media types that kopf's watches and lists accept: only the metadata of jobs, because kopf decodes every job a
#: second time; and how many jobs a page of a list has, if these have few bytes.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
LISTS, PAGE_SIZE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", 50
#: The type of the event of a deletion, and a resourceVersion than which each other one is newer.
DELETED, OLDEST = "DELETED", "0"
#: Called with a job and the resourceVersion of its event.
Seen = Callable[[JobKey, str], None]
#: Called with a uid and a resourceVersion: whether the operator's cache has this version of the job or a newer one.
IsKnown = Callable[[str, str], bool]

log = logging.getLogger("trainshed")


def _knows_none(_uid: str, _version: str) -> bool:
    return False


class NoDiffs(kopf.DiffBaseStorage):
    """Stores no last-seen state: no annotation on the job, and no four deep copies per event."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[object] | None = None) -> kopf.BodyEssence:
        """Return an empty essence."""
        del body, extra_fields
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Return an empty essence; none is stored."""
        del body
        return kopf.BodyEssence({})

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers, because no handler makes progress."""

    def fetch(self, *, key: object, body: kopf.Body) -> None:
        """Return nothing; no progress is stored."""
        del key, body

    def store(self, *, key: object, record: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Store nothing."""

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Remove nothing; no progress is stored."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: object) -> None:
        """Touch nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence unchanged."""
        return essence


class Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    """The identity of an object, which is all that kopf gets: it keeps what it gets, and would act on a finalizer."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class PartialObject(msgspec.Struct):
    """An object of an event or a list."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class PartialEvent(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: PartialObject


class ObjectList(msgspec.Struct, rename="camel", omit_defaults=True):
    """A page of a list; the API server sends null for an empty one of metadata, which kopf takes for a broken one."""

    items: list[PartialObject] | None
    kind: str = ""
    api_version: str = ""
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class Line:
    """A line of a watch that arrives in pieces; of one of more than MAX_LINE_BYTES only the beginning is kept."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add a piece that does not end the line."""
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > MAX_LINE_BYTES:
            self._pieces = [b"".join((*self._pieces[:-1], piece[:HEAD_BYTES]))[:HEAD_BYTES]]

    def ended(self, piece: bytes) -> bytes:
        """Return the whole line and begin the next one; of one that is too long its identity, or nothing."""
        self.add(piece)
        content, size = b"".join(self._pieces), self._size
        self._pieces, self._size = [], 0
        return content if size <= MAX_LINE_BYTES else _identity(content)


def _identity(beginning: bytes) -> bytes:
    """Return the event that begins like this with the identity of its object only, or b"" if that is not there."""
    head = lists.event_head(beginning)
    if head is None:
        return b""
    known = Metadata(head.name, head.namespace, head.uid, head.version)
    return msgspec.json.encode(PartialEvent(head.type, PartialObject(known)))


class NewEvents:
    """The content of a watch without the events that the operator's cache has already.

    kopf takes longer for an event than the operator needs for all else that it does because of it. Now and then one of
    them is a bookmark, from which kopf continues after a disconnection.
    """

    def __init__(self, content: aiohttp.StreamReader, is_known: IsKnown) -> None:
        self._content = content
        self._is_known = is_known
        self._decoder = msgspec.json.Decoder(PartialEvent)
        self._next_bookmark = 0.0

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the content: aiohttp uses some when the response ends."""
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield whole lines."""
        current = Line()
        async for data in self._content.iter_chunked(size):
            *ends, rest = data.split(b"\n")
            lines = [current.ended(end) for end in ends]
            current.add(rest)
            events = [self._event(line) for line in lines]
            if not all(event is None or self._has(event) for event in events):
                await asyncio.sleep(INFORMER_DELAY)
            for line, event in zip(lines, events, strict=True):
                # kopf keeps each object until it is deleted.
                if event is None or event.type == DELETED or not self._has(event):
                    yield (msgspec.json.encode(event) if event else line) + b"\n"
                elif (now := asyncio.get_running_loop().time()) >= self._next_bookmark:
                    self._next_bookmark = now + BOOKMARK_INTERVAL
                    yield msgspec.json.encode(PartialEvent("BOOKMARK", event.object)) + b"\n"
        yield current.ended(b"")

    def _event(self, line: bytes) -> PartialEvent | None:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            event = self._decoder.decode(line)
            if event.type in ("ADDED", "MODIFIED", DELETED):
                return event
        return None

    def _has(self, event: PartialEvent) -> bool:
        """Return whether the cache has what this event says."""
        found = event.object.metadata
        if event.type == DELETED:
            return not self._is_known(found.uid, OLDEST)
        return self._is_known(found.uid, found.resource_version)


class InfiniteBackoff:
    """Back-off in seconds without a last retry, so that no outage of the API server ends kopf."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1, 2, 5)
        while True:
            yield 10


def registry(
    frameworks: Iterable[Framework],
    credentials: Credentials,
    seen: Seen,
    is_known: IsKnown = _knows_none,
) -> kopf.OperatorRegistry:
    """Return kopf's registry with the startup, login and event handlers."""
    found = kopf.OperatorRegistry()

    @kopf.on.startup(registry=found)
    async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        _configure(settings)

    @kopf.on.login(registry=found)
    async def login(**_: object) -> kopf.AiohttpSession:
        return _session(credentials, is_known)

    for framework in frameworks:
        _listen(found, framework, seen)
    return found


def _listen(registry: kopf.OperatorRegistry, framework: Framework, seen: Seen) -> None:
    @kopf.on.event("kubeflow.org", framework.version, framework.plural, registry=registry)
    async def changed(namespace: str | None, name: str | None, meta: Document, **_: object) -> None:
        seen(JobKey(namespace or "", framework.kind, name or ""), str(meta.get("resourceVersion", "")))


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.persistence.diffbase_storage = NoDiffs()
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.consistency_timeout = 0
    settings.peering.standalone = True
    settings.queueing.idle_timeout = 0.1  # otherwise kopf keeps all listed jobs for five seconds
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = InfiniteBackoff()
    settings.watching.chunk_size = PAGE_SIZE
    settings.watching.server_timeout = 60
    settings.watching.connect_timeout = 10
    settings.process.ultimate_exiting_timeout = None  # None: otherwise kopf kills the process this long after it failed
    # What ends kopf is logged where it is restarted; errors that kopf retries are logged by the operator's own
    # informers.
    logging.getLogger("kopf").setLevel(logging.CRITICAL)


def _identities(content: bytes) -> bytes:
    """Return a list of jobs with their identity only."""
    try:
        found = msgspec.json.decode(content, type=ObjectList)
    except (msgspec.DecodeError, RecursionError):
        return content
    return msgspec.json.encode(msgspec.structs.replace(found, items=found.items or []))


class ListPages:
    """Reads pages of lists that have few bytes, as `lists.list_pages` does, and gives kopf the identity of the jobs."""

    def __init__(self) -> None:
        self._size = PAGE_SIZE

    async def read(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send the request for a page, and again for fewer jobs while it is too long."""
        while True:
            size = self._size
            request.url = request.url.update_query(limit=str(size))
            response = await handler(request)
            if response.status != HTTPStatus.OK:
                return response
            content = await _content(response, lists.PAGE_BYTES if size > 1 else MAX_RESPONSE_BYTES)
            if content is not None:
                is_small = len(content) * lists.SMALL < lists.PAGE_BYTES
                self._size = min(PAGE_SIZE, size * lists.GROW) if is_small else size
                response._body = _identities(content)  # noqa: SLF001 - what `json` decodes
                return response
            if size == 1:
                raise aiohttp.ClientPayloadError(f"a page with one job has more than {MAX_RESPONSE_BYTES:,} bytes")
            self._size = max(1, size // lists.SHRINK)


async def _content(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Return the body of a response, or None if it has more bytes; then the rest is not read."""
    pieces: list[bytes] = []
    async for piece in response.content.iter_any():
        pieces.append(piece)
        most -= len(piece)
        if most < 0:
            response.close()
            return None
    return b"".join(pieces)


def _session(credentials: Credentials, is_known: IsKnown = _knows_none) -> kopf.AiohttpSession:
    """Return a session with the operator's credentials that reads only metadata and follows no redirect."""
    token_source, pages = TokenSource(credentials), ListPages()

    async def as_metadata(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        watches, is_list = request.url.query.get("watch") == "true", "limit" in request.url.query
        if watches or is_list:
            request.headers["Accept"] = METADATA if watches else LISTS
        headers = token_source.headers()
        for name, _ in headers:
            request.headers.popall(name, None)
        request.headers.extend(headers)
        response = await (pages.read(request, handler) if is_list else handler(request))
        if watches and response.status == HTTPStatus.OK:
            response.content = NewEvents(response.content, is_known)  # type: ignore[assignment] # all that kopf uses
        if response.status == HTTPStatus.UNAUTHORIZED:
            token_source.renew()
        if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
            response.close()
            raise aiohttp.ClientConnectionError(f"the server answers with a redirect ({response.status})")
        return response

    connector = aiohttp.TCPConnector(limit=0, ssl=credentials.tls() or True)
    session = aiohttp.ClientSession(connector=connector, middlewares=(as_metadata,), proxy=credentials.proxy or None)
    return kopf.AiohttpSession(server=credentials.server, aiohttp_session=session)


async def supervise(
    registry: kopf.OperatorRegistry,
    namespaces: tuple[str, ...],
    flags: tuple[asyncio.Event, asyncio.Event, asyncio.Event],
) -> None:
    """Run kopf until it ends without an error, and restart it after an error or a hang.

    `flags` are three events: kopf starts on the first, sets the second when a signal ends it, and ends on the third.
    kopf lists all jobs at once and drops them soon. It starts after the cache sync, because otherwise the objects that
    the operator keeps would lie between those that kopf drops, and the process could not return that memory.
    """
    synced, over, stop = flags
    asyncio.get_running_loop().set_exception_handler(partial(process.handle_loop_error, asyncio.Event()))
    await process.wait_for_any(synced, stop)
    scope = {"namespaces": namespaces} if namespaces else {"clusterwide": True}
    while not stop.is_set():
        ready, stuck = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(partial(process.handle_loop_error, stuck))
        started, failed = asyncio.create_task(ready.wait()), asyncio.create_task(stuck.wait())
        task = asyncio.create_task(
            kopf.operator(registry=registry, standalone=True, ready_flag=ready, stop_flag=stop, **scope)
        )
        await asyncio.wait((task, started, failed), return_when=asyncio.FIRST_COMPLETED)
        process.handle_signals(over)  # kopf has replaced the signal handlers
        await asyncio.wait((task, failed), return_when=asyncio.FIRST_COMPLETED)
        for running in (task, started, failed):
            running.cancel()
        await asyncio.wait((task,), timeout=process.GRACE_PERIOD)
        if task.done() and not task.cancelled() and task.exception() is None:
            over.set()
            return
        log.warning("kopf %s; restarting", _restart_reason(task))
        await asyncio.sleep(RESTART_DELAY)


def _restart_reason(task: asyncio.Task[None]) -> str:
    """Return why kopf must be restarted; sometimes one task of kopf fails and the rest of it hangs."""
    error = task.exception() if task.done() and not task.cancelled() else None
    return f"failed: {type(error).__name__}: {error}" if error else "is unresponsive"
