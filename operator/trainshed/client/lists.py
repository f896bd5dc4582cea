"""Decodes objects and lists; skips values that have a wrong type and documents that are nested too deeply."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, inspect

from trainshed.api.coerce import as_mapping, encodable, replica_specs
from trainshed.api.job import KUEUE_PREFIX, Document
from trainshed.api.objects import Dependent, Pod, Resource, Service
from trainshed.client import TooLarge, Unavailable
from trainshed.fit.amounts import quantity
from trainshed.fit.demands import pod_devices

from .decode import PodObject, PodSpec, PodStatus, ServiceObject, dependent, pod, service
from .long_lists import shortened
from .metadata import ObjectMeta, PartialObjectMetadata
from .nesting import decode_bounded
from .sections import entries_of, sections, value_of
from .transport import MAX_RESPONSE_BYTES, Path, RestClient

T = TypeVar("T")
#: Types without parts, by their msgspec type.
LEAVES: dict[type[inspect.Type], type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.BoolType: bool,
    inspect.DateTimeType: datetime,
    inspect.NoneType: type(None),
}
#: The fields of the metadata that identify an object.
IDENTITY = ("name", "namespace", "uid", "resourceVersion")
#: Digits of an integer; longer ones exceed every format of the API.
DIGITS = 20


def decode_leniently(content: msgspec.Raw | bytes, wanted: type[T]) -> T:
    """Decode an object without its invalid values; raises `msgspec.DecodeError` if it is not an object.

    This is many times slower than msgspec's decoder, so it is only for objects that msgspec's decoder rejects.
    """
    try:
        found = json.loads(bytes(content).decode(errors="replace"), parse_int=_bounded_integer, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if isinstance(metadata, dict) and not all(isinstance(metadata.get(key, ""), str) for key in IDENTITY):
        raise msgspec.DecodeError("the metadata do not identify the object")
    return msgspec.convert(_fitting(found, inspect.type_info(wanted)), wanted)


def _fitting(found: object, wanted: inspect.Type) -> object:
    """Return the value without the parts of a wrong type, `UNSET` if the value itself has a wrong type."""
    match wanted:
        case inspect.UnionType(types=types):
            return next((kept for one in types if (kept := _fitting(found, one)) is not UNSET), UNSET)
        case inspect.StructType(fields=fields):
            known = {field.encode_name: field.type for field in fields}
            return _parts(found, known)
        case inspect.ListType(item_type=kind):
            items = [_fitting(item, kind) for item in found] if isinstance(found, list) else UNSET
            return items if items is UNSET else [item for item in items if item is not UNSET]
        case inspect.DictType(value_type=kind):
            return _parts(found, dict.fromkeys(found, kind)) if isinstance(found, dict) else UNSET
        case inspect.AnyType():
            return encodable(found) if isinstance(found, str) else found
    return _leaf(found, LEAVES[type(wanted)])


def _parts(found: object, known: dict[str, inspect.Type]) -> object:
    if not isinstance(found, dict):
        return UNSET
    parts = {encodable(key): _fitting(found[key], kind) for key, kind in known.items() if key in found}
    return {key: value for key, value in parts.items() if value is not UNSET}


def _leaf(found: object, wanted: type) -> object:
    try:
        return msgspec.convert(encodable(found) if isinstance(found, str) else found, wanted)
    except msgspec.ValidationError:
        return UNSET


def _bounded_integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= DIGITS else None


def _finite(text: str) -> float | None:
    return found if math.isfinite(found := float(text)) else None


#: Objects of a page, and its bytes: with more than these it is read again with fewer objects. A whole list, which is
#: read only if the pages of it have expired, may have more.
PAGE_SIZE, PAGE_BYTES, WHOLE_BYTES = 500, 8 * 1024 * 1024, 256 * 1024 * 1024
#: A page that is too long is read again with this part of its objects; one that has less than a quarter of the bytes
#: is followed by one of twice as many.
SHRINK, GROW, SMALL = 8, 2, 4
#: The most objects and bytes of a list, more than a cluster has: etcd stores 8 GiB at most. Where the objects are kept
#: as they are, the list has no more than KEPT_BYTES.
MOST_OBJECTS, MOST_BYTES, KEPT_BYTES = 1_000_000, 8 * 1024**3, 512 * 1024**2
#: The most pages before the last one with less than a tenth of the objects that were asked for, and the seconds that
#: these take together. The API permits them, and even empty ones; the API server itself fills its pages.
MOST_SPARSE, SPARSE_SECONDS, TENTH = 500, 60.0, 10

log = logging.getLogger(__name__)


class Decoder(Generic[T]):
    """Decodes objects of one kind from JSON.

    With `sections` a large object is `shortened` to the metadata and these sections before.
    """

    def __init__(
        self,
        decoder: msgspec.json.Decoder[Any],
        convert: Callable[[Any, msgspec.Raw | bytes], T],
        sections: Mapping[str, type[msgspec.Struct]] | None = None,
    ) -> None:
        self._decoder = decoder
        self._convert = convert
        self._sections = sections

    def item(self, content: msgspec.Raw | bytes) -> T:
        """Decode an object, without its invalid values; raises `msgspec.DecodeError` if it is not an object."""
        try:
            short = content if self._sections is None else shortened(content, self._sections)
            found = decode_bounded(self._decoder, short)
        except msgspec.ValidationError:
            found = decode_leniently(content, self._decoder.type)
        return self._convert(found, content)

    def answer(self, content: msgspec.Raw | bytes) -> T:
        """Decode the response to a request; raises `Unavailable` if it cannot be decoded."""
        try:
            return self.item(content)
        except msgspec.DecodeError as error:
            raise Unavailable(f"cannot decode the response: {error}") from error


PODS: Decoder[Pod] = Decoder(
    msgspec.json.Decoder(PodObject), lambda found, _: pod(found), {"spec": PodSpec, "status": PodStatus}
)
SERVICES: Decoder[Service] = Decoder(msgspec.json.Decoder(ServiceObject), lambda found, _: service(found), {})
JSON_OBJECT = msgspec.json.Decoder(dict[str, Any])
#: Objects of any kind as a whole, and only the metadata.
DOCUMENTS: Decoder[Document] = Decoder(JSON_OBJECT, lambda found, _: found)
METADATA: Decoder[ObjectMeta] = Decoder(
    msgspec.json.Decoder(PartialObjectMetadata), lambda found, _: found.metadata, {}
)


class EventContent(msgspec.Struct, rename="camel"):
    """What is read of an Event: text, times, and what it is about."""

    involved_object: object = None
    type: object = None
    reason: object = None
    message: object = None
    series: object = None
    last_timestamp: object = None
    event_time: object = None


#: Their fields that are set, by their names in JSON.
EVENTS: Decoder[Document] = Decoder(
    msgspec.json.Decoder(EventContent),
    lambda found, _: {
        field.encode_name: value
        for field in msgspec.structs.fields(EventContent)
        if (value := getattr(found, field.name))
    },
)


class JobParts(msgspec.Struct):
    """The parts of a job, undecoded."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"null")


#: The metadata of jobs that are read. Not among them are managedFields, which may be as large as the rest of the job.
JOB_METADATA = frozenset((*IDENTITY, "generation", "creationTimestamp", "deletionTimestamp", "annotations"))


#: A label of a job that is read, and its value: they have no escape sequences. The others may be a hundred thousand.
#: Of many only the first ones count: that there is one, and whether it changes.
MOST_LABELS = 64
LABEL = re.compile(rb'"(' + re.escape(KUEUE_PREFIX.encode()) + rb'[^"\\]*)"\s*:\s*"([^"\\]*)"')


def job_document(found: JobParts) -> Document:
    """Return a job whose spec is a function that decodes it: most changes of a job are not about its spec."""
    parts = entries_of(found.metadata)
    metadata = {name: value_of(part) for name, part in parts.items() if name in JOB_METADATA}
    labels = islice(LABEL.finditer(bytes(parts.get("labels", b""))), MOST_LABELS)
    metadata["labels"] = {one[1].decode(errors="replace"): one[2].decode(errors="replace") for one in labels}
    return {"metadata": metadata, "spec": partial(value_of, found.spec), "status": value_of(found.status)}


PARTS = msgspec.json.Decoder(JobParts)
JOBS: Decoder[Document] = Decoder(PARTS, lambda found, _: job_document(found))


class _RunPolicy(msgspec.Struct):
    activeDeadlineSeconds: int | None = None  # noqa: N815 - the name in the API


class _Spec(msgspec.Struct):
    runPolicy: _RunPolicy | None = None  # noqa: N815 - the name in the API


SPEC = msgspec.json.Decoder(_Spec)


def run_policy(spec: msgspec.Raw) -> Document:
    """Return what is kept of a spec; nothing of one that has other types there."""
    try:
        found = SPEC.decode(spec).runPolicy
    except msgspec.MsgspecError:
        return {}
    seconds = found.activeDeadlineSeconds if found else None
    return {} if seconds is None else {"runPolicy": {"activeDeadlineSeconds": seconds}}


#: A status that has ended, and counts pods that have not.
ENDED, ACTIVE = b'"completionTime"', re.compile(rb'"active"\s*:\s*[1-9]')
#: The most roles, and devices of a pod, that are kept of a spec.
MOST_ROLES, MOST_DEVICES = 16, 8


def held_devices(found: JobParts) -> Document:
    """Return the devices of each role as a spec that requests nothing else, of a job that has ended and holds some.

    The specs of all others are not decoded.
    """
    if ENDED not in (status := bytes(found.status)) or not ACTIVE.search(status):
        return {}
    kept: dict[str, Any] = {}
    for field, role, replica in islice(replica_specs({"spec": value_of(found.spec)}), MOST_ROLES):
        devices = pod_devices(as_mapping(as_mapping(replica.get("template")).get("spec")))
        requests = {name: quantity(name, amount) for name, amount in islice(devices.items(), MOST_DEVICES)}
        template = {"spec": {"containers": [{"resources": {"requests": requests}}]}}
        kept.setdefault(field, {})[role] = {"template": template}
    return kept


def dependent_decoder(resource: Resource) -> Decoder[Dependent]:
    """Return the decoder of dependents of a kind."""
    return Decoder(
        msgspec.json.Decoder(PartialObjectMetadata),
        lambda found, content: dependent(resource, found.metadata, sections(content)),
        {},
    )


class ListMeta(msgspec.Struct):
    """The metadata of a list."""

    version: str = msgspec.field(name="resourceVersion", default="")
    continue_token: str | None = msgspec.field(name="continue", default=None)


class Page(msgspec.Struct):
    """A page of a list, with undecoded items."""

    metadata: ListMeta
    items: list[msgspec.Raw]


PAGES: Decoder[Page] = Decoder(msgspec.json.Decoder(Page), lambda page, _: page)


def decode_items(kind: Decoder[T], page: Page, plural: str) -> Iterator[T]:
    """Yield the objects of a page; one that cannot be decoded is logged and skipped."""
    for content in page.items:
        try:
            yield kind.item(content)
        except msgspec.DecodeError as error:
            log.error("list %s: skipped undecodable object: %s", plural, error)  # noqa: TRY400 - no traceback


class _Extent:
    """How much of a list has been read; a server that is broken may answer with a next page without end."""

    def __init__(self, plural: str, most_bytes: int) -> None:
        self._plural, self._most_bytes = plural, most_bytes
        self._objects = self._bytes = self._sparse = 0
        self._seconds = 0.0

    def add_bytes(self, size: int) -> None:
        """Count the bytes of a page; raises `Unavailable` if there are too many."""
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise Unavailable(f"the list of {self._plural} is too long: it has more than {self._most_bytes:,} bytes")

    def add_page(self, objects: int, asked: int, seconds: float) -> None:
        """Count a page that another one follows, and the seconds it took; raises `Unavailable` if they are too many."""
        self._objects += objects
        if self._objects > MOST_OBJECTS:
            raise Unavailable(f"the list of {self._plural} is too long: it has more than {MOST_OBJECTS:,} objects")
        if objects * TENTH >= asked:
            return
        self._sparse += 1
        self._seconds += seconds
        if self._sparse > MOST_SPARSE or self._seconds > SPARSE_SECONDS:
            raise Unavailable(
                f"the list of {self._plural} has no end: after {self._sparse:,} pages with few objects or none another"
                " one follows"
            )


async def list_pages(
    rest: RestClient, path: Path, selector: Mapping[str, str], *, whole: bool = False, most_bytes: int = MOST_BYTES
) -> AsyncIterator[Page]:
    """Yield the pages of a list, or the whole list; raises as `RestClient.call` does, `Gone` also between pages.

    A page has at most PAGE_SIZE objects and PAGE_BYTES, however large the objects are; a single one may have more. All
    pages have `most_bytes` together; raises `Unavailable` if more follow, or if too many of them have next to nothing.
    """
    if whole:
        yield PAGES.answer(await rest.read_page(path, selector, WHOLE_BYTES))
        return
    size, continue_token, extent = PAGE_SIZE, "", _Extent(path.plural, most_bytes)
    while True:
        query = {"limit": str(size), **selector} | ({"continue": continue_token} if continue_token else {})
        began = monotonic()
        try:
            content = await rest.read_page(path, query, PAGE_BYTES if size > 1 else MAX_RESPONSE_BYTES)
        except TooLarge:
            if size == 1:
                raise
            extent.add_bytes(PAGE_BYTES)
            size = max(1, size // SHRINK)
            continue
        extent.add_bytes(len(content))
        page, asked, seconds = PAGES.answer(content), size, monotonic() - began
        if len(content) * SMALL < PAGE_BYTES:
            size = min(PAGE_SIZE, size * GROW)
        del content
        yield page
        before, continue_token = continue_token, page.metadata.continue_token or ""
        if not continue_token:
            return
        if continue_token == before:
            raise Unavailable(f"the list of {path.plural} has no end: a page is followed by itself")
        extent.add_page(len(page.items), asked, seconds)


#: The beginning of an event of a watch, as the API server writes objects of its own kinds: the metadata are first.
HEAD = re.compile(
    rb'\s*\{\s*"type"\s*:\s*"(?P<type>[A-Z]+)"\s*,\s*"object"\s*:\s*\{\s*'
    rb'(?:"kind"\s*:\s*"\w+"\s*,\s*)?(?:"apiVersion"\s*:\s*"[\w./-]+"\s*,\s*)?"metadata"\s*:\s*\{\s*'
    rb'"name"\s*:\s*"(?P<name>[^"\\]+)"\s*,\s*(?:"generateName"\s*:\s*"[^"\\]*"\s*,\s*)?'
    rb'(?:"namespace"\s*:\s*"(?P<namespace>[^"\\]+)"\s*,\s*)?'
    rb'"uid"\s*:\s*"(?P<uid>[^"\\]+)"\s*,\s*"resourceVersion"\s*:\s*"(?P<version>\d+)"'
)


class EventHead(msgspec.Struct, frozen=True):
    """The type of an event of a watch, and the identity of its object."""

    type: str
    name: str
    namespace: str
    uid: str
    version: str


def event_head(content: bytes) -> EventHead | None:
    """Return what the beginning of an event says, or None if it does not say which object it is about."""
    found = HEAD.match(content)
    return EventHead(**{name: value.decode() for name, value in found.groupdict(b"").items()}) if found else None
