"""What the server answers to a request, read; what makes no sense is as good as no answer."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import orjson

from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service

from . import Unavailable
from .lists import PODS, SERVICES, Kind
from .objects import Meta, Stub

T = TypeVar("T")
METAS: Kind[Meta] = Kind(msgspec.json.Decoder(Stub), lambda found: found.metadata)


def pod(content: bytes) -> Pod:
    """A pod; raises `Unavailable` for bytes that are none."""
    return _read(PODS, content)


def service(content: bytes) -> Service:
    """A Service; raises `Unavailable` for bytes that are none."""
    return _read(SERVICES, content)


def meta(content: bytes) -> Meta:
    """The metadata of an object of any kind; raises `Unavailable` for bytes that are none."""
    return _read(METAS, content)


def document(content: bytes) -> Document:
    """The whole of an object of any kind; raises `Unavailable` for bytes that are no JSON."""
    try:
        found: Document = orjson.loads(content)
    except ValueError as error:
        raise Unavailable(f"an answer that makes no sense: {error}") from error
    return found


def _read(kind: Kind[T], content: bytes) -> T:
    try:
        return kind.item(content)
    except msgspec.DecodeError as error:
        raise Unavailable(f"an answer that makes no sense: {error}") from error
