"""Reads objects as far as the caller may, and names the right that is lacking otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainshed.api.coerce import as_mapping, as_sequence, parse_count, parse_text
from trainshed.api.job import Document
from trainshed.client import Forbidden, NotFound
from trainshed.client.lists import DOCUMENTS, KEPT_BYTES, MOST_BYTES, decode_items, list_pages
from trainshed.client.transport import Path, RestClient
from trainshed.views.diagnosis import Unreadable
from trainshed.views.rows import name_of, namespace_of


def whole(item: Document) -> Document:
    """Return all of an object."""
    return item


def identity(item: Document) -> Document:
    """Return the kind and the name of an object; the rest may be large."""
    return {"kind": parse_text(item.get("kind")), "metadata": {"name": name_of(item)}}


def replicas(item: Document) -> Document:
    """Return the identity of a Deployment, and how many replicas it wants and are ready."""
    wanted = {"replicas": parse_count(as_mapping(item.get("spec")).get("replicas", 1))}
    ready = {"readyReplicas": parse_count(as_mapping(item.get("status")).get("readyReplicas"))}
    metadata = {"name": name_of(item), "namespace": namespace_of(item)}
    return {"metadata": metadata, "spec": wanted, "status": ready}


async def listed(
    rest: RestClient,
    path: Path,
    query: Mapping[str, str] | None = None,
    keep: Callable[[Document], Document | None] = whole,
) -> list[Document] | Unreadable:
    """Return what is kept of objects, none if the cluster has no such kind; raises an `ApiError`."""
    try:
        pages = list_pages(rest, path, query or {}, most_bytes=KEPT_BYTES if keep is whole else MOST_BYTES)
        found = [keep(item) async for page in pages for item in decode_items(DOCUMENTS, page, path.plural)]
    except NotFound:
        return []
    except Forbidden:
        return Unreadable(right("list", path))
    return [item for item in found if item is not None]


async def existing(rest: RestClient, path: Path) -> Document | None:
    """Return an object, or None if it does not exist; raises an `ApiError`, also `Forbidden`."""
    try:
        return DOCUMENTS.answer(await rest.call("GET", path))
    except NotFound:
        return None


async def readable(rest: RestClient, path: Path) -> Document | Unreadable | None:
    """Return an object, None if it does not exist; raises an `ApiError`."""
    try:
        return await existing(rest, path)
    except Forbidden:
        return Unreadable(right("get", path))


async def api_groups(rest: RestClient) -> Mapping[str, Document] | Unreadable:
    """Return the API groups of the cluster by name; raises an `ApiError`."""
    try:
        answer = DOCUMENTS.answer(await rest.call("GET", Path("", "apis")))
    except Forbidden:
        return Unreadable("get /apis")
    return {parse_text(item.get("name")): item for item in map(as_mapping, as_sequence(answer.get("groups")))}


def prefix_of(group: Document) -> str:
    """Return the prefix of the paths of an API group, in the version that the server prefers."""
    return f"/apis/{parse_text(as_mapping(group.get('preferredVersion')).get('groupVersion'))}"


def right(verb: str, path: Path) -> str:
    """Return the right to do something with objects, in words."""
    group = path.prefix.split("/")[2] if path.prefix.startswith("/apis/") else ""
    where = f" in namespace {path.namespace}" if path.namespace else " in the whole cluster"
    return f"{verb} {path.plural}{f'.{group}' if group else ''}{where}"
