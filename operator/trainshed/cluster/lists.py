"""Decoders of each kind of object, and of lists, in pages or as a whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from trainshed.api.job import Document
from trainshed.api.objects import Dependent, Pod, Resource, Service
from trainshed.cluster import Unavailable

from . import lenient, nesting
from .objects import Meta, PodObject, ServiceObject, Stub, dependent, pod, service
from .wire import Path, Wire

T = TypeVar("T")
PAGE = 500

log = logging.getLogger(__name__)


class Kind(Generic[T]):
    """Decodes objects of one kind from JSON."""

    def __init__(self, decoder: msgspec.json.Decoder[Any], convert: Callable[[Any], T]) -> None:
        self._decoder = decoder
        self._convert = convert

    def item(self, content: msgspec.Raw | bytes) -> T:
        """Decode an object, without its invalid values; raises `msgspec.DecodeError` if it is not an object."""
        try:
            found = nesting.decode(self._decoder, content)
        except msgspec.ValidationError:
            found = lenient.decode(content, self._decoder.type)
        return self._convert(found)

    def answer(self, content: msgspec.Raw | bytes) -> T:
        """Decode the response to a request; raises `Unavailable` if it cannot be decoded."""
        try:
            return self.item(content)
        except msgspec.DecodeError as error:
            raise Unavailable(f"cannot decode the response: {error}") from error


PODS: Kind[Pod] = Kind(msgspec.json.Decoder(PodObject), pod)
SERVICES: Kind[Service] = Kind(msgspec.json.Decoder(ServiceObject), service)
WHOLE = msgspec.json.Decoder(dict[str, Any])
#: Objects of any kind as a whole, and only the metadata.
DOCUMENTS: Kind[Document] = Kind(WHOLE, lambda found: found)
METAS: Kind[Meta] = Kind(msgspec.json.Decoder(Stub), lambda found: found.metadata)


def dependents(resource: Resource) -> Kind[Dependent]:
    """Return the decoder of dependents of a kind."""
    return Kind(WHOLE, lambda found: dependent(resource, msgspec.convert(found, Stub).metadata, found))


class ListMeta(msgspec.Struct):
    """The metadata of a list."""

    version: str = msgspec.field(name="resourceVersion", default="")
    go_on: str | None = msgspec.field(name="continue", default=None)


class Page(msgspec.Struct):
    """A page of a list, with undecoded items."""

    metadata: ListMeta
    items: list[msgspec.Raw]


PAGES: Kind[Page] = Kind(msgspec.json.Decoder(Page), lambda page: page)


def understood(kind: Kind[T], page: Page, plural: str) -> Iterator[T]:
    """Yield the objects of a page; one that cannot be decoded is logged and skipped."""
    for content in page.items:
        try:
            yield kind.item(content)
        except msgspec.DecodeError as error:
            log.error("list %s: skipped undecodable object: %s", plural, error)  # noqa: TRY400 - no traceback


async def pages(wire: Wire, path: Path, selector: Mapping[str, str], *, whole: bool = False) -> AsyncIterator[Page]:
    """Yield the pages of a list, or the whole list; raises the errors of `Wire.call`, `Expired` also between pages."""
    query = {**selector} if whole else {"limit": str(PAGE), **selector}
    go_on: dict[str, str] = {}
    while True:
        page = PAGES.answer(await wire.call("GET", path, query={**query, **go_on}))
        yield page
        if not page.metadata.go_on:
            return
        go_on = {"continue": page.metadata.go_on}
