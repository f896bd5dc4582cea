"""What the server answers to a request, read; what makes no sense is as good as no answer."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import orjson

from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service

from . import Unavailable, objects
from .objects import Meta, PodObject, ServiceObject, Stub

T = TypeVar("T")
PODS, SERVICES = msgspec.json.Decoder(PodObject), msgspec.json.Decoder(ServiceObject)
STUBS = msgspec.json.Decoder(Stub)


def pod(content: bytes) -> Pod:
    """A pod; raises `Unavailable` for bytes that are none."""
    return objects.pod(_decoded(PODS, content))


def service(content: bytes) -> Service:
    """A Service; raises `Unavailable` for bytes that are none."""
    return objects.service(_decoded(SERVICES, content))


def meta(content: bytes) -> Meta:
    """The metadata of an object of any kind; raises `Unavailable` for bytes that are none."""
    return _decoded(STUBS, content).metadata


def document(content: bytes) -> Document:
    """The whole of an object of any kind; raises `Unavailable` for bytes that are no JSON."""
    try:
        found: Document = orjson.loads(content)
    except ValueError as error:
        raise Unavailable(f"an answer that makes no sense: {error}") from error
    return found


def _decoded(decoder: msgspec.json.Decoder[T], content: bytes) -> T:
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as error:
        raise Unavailable(f"an answer that makes no sense: {error}") from error
