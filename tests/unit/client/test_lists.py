"""Lists are read in pages or as a whole, and each kind is decoded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from trainshed.api.objects import CONFIG_MAPS
from trainshed.client import TooLarge, Unavailable, lists
from trainshed.client.lists import DOCUMENTS, METADATA, PAGES, PODS, SERVICES, Decoder, dependent_decoder, list_pages
from trainshed.client.transport import Path

OBJECT = b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "data": {"k": "v"}}'


@pytest.mark.parametrize(("whole", "sizes"), [(False, [2, 2, 1]), (True, [5])])
async def test_a_list_is_read_in_pages_or_as_a_whole(rest, user, monkeypatch, whole, sizes):
    monkeypatch.setattr(lists, "PAGE_SIZE", 2)
    for number in range(5):
        user.make("configmaps", {"metadata": {"name": f"c-{number}", "labels": {"own": "1"}}})
    path = Path("/api/v1", "configmaps", user.namespace)
    found = [page async for page in list_pages(rest, path, {"labelSelector": "own"}, whole=whole)]
    assert [len(page.items) for page in found] == sizes
    assert len({page.metadata.version for page in found}) == 1, "all pages are of one version"


def test_each_kind_is_decoded():
    assert (PODS.item(OBJECT).name, SERVICES.item(OBJECT).uid, METADATA.item(OBJECT).name) == ("a", "u", "a")
    assert dependent_decoder(CONFIG_MAPS).item(OBJECT).document["data"] == {"k": "v"}
    assert DOCUMENTS.item(OBJECT)["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize("kind", [PODS, SERVICES, METADATA, DOCUMENTS, PAGES, dependent_decoder(CONFIG_MAPS)])
@pytest.mark.parametrize("content", [b"", b"<html>", OBJECT[:-1], b"[]"], ids=["nothing", "a page", "half", "a list"])
def test_an_undecodable_response_is_unavailable(kind: Decoder[object], content: bytes):
    with pytest.raises(Unavailable, match="cannot decode the response"):
        kind.answer(content)


async def test_an_undecodable_page_is_unavailable():
    async def garbled(*_, **__) -> bytes:
        return b'{"items": [{"metadata": {'

    with pytest.raises(Unavailable, match="cannot decode the response"):
        await anext(list_pages(SimpleNamespace(read_page=garbled), Path("/api/v1", "pods", "ml"), {}))


SIZE = 100_000


class EndlessServer:
    """Answers each request for a page with so many objects, or as many as are asked for, and a new token.

    A request for more than `most` objects is answered with too many bytes.
    """

    def __init__(self, objects: int | None, most: int = lists.PAGE_SIZE, size: int = 0) -> None:
        self.objects, self.most, self.asked = objects, most, 0
        self._padding = "x" * size

    async def read_page(self, path: Path, query: Mapping[str, str], most: int) -> bytes:
        del path, most
        self.asked += 1
        limit = int(query["limit"])
        if limit > self.most:
            raise TooLarge("too large")
        count = limit if self.objects is None else self.objects
        items = [{"metadata": {"name": f"{self.asked}-{number}"}, "x": self._padding} for number in range(count)]
        return json.dumps({"metadata": {"continue": f"token-{self.asked}"}, "items": items}).encode()


async def read_pages(server: EndlessServer, most: int) -> None:
    """Read all pages; fails after this many."""
    async for _ in list_pages(server, Path("/api/v1", "pods"), {}, most_bytes=200 * SIZE):
        assert server.asked < most, "it goes on and on"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (EndlessServer(0), "the list of pods has no end: after 501 pages with few objects or none another one follows"),
        (EndlessServer(49), "the list of pods has no end: after 501 pages with few objects or none"),
        (EndlessServer(50), "the list of pods is too long: it has more than 50,000 objects"),
        (EndlessServer(None), "the list of pods is too long: it has more than 50,000 objects"),
        (EndlessServer(10, size=SIZE), f"the list of pods is too long: it has more than {200 * SIZE:,} bytes"),
        (EndlessServer(None, most=1), f"the list of pods is too long: it has more than {200 * SIZE:,} bytes"),
    ],
    ids=[
        "empty pages",
        "sparse pages",
        "pages of a tenth",
        "full pages",
        "long pages",
        "pages that must be asked again",
    ],
)
async def test_a_list_that_is_followed_by_ever_new_pages_is_given_up(monkeypatch, server: EndlessServer, said: str):
    monkeypatch.setattr(lists, "MOST_OBJECTS", 50_000)
    with pytest.raises(Unavailable, match=said):
        await read_pages(server, 2_000)


async def test_a_list_whose_sparse_pages_take_too_long_is_given_up(monkeypatch):
    server = EndlessServer(1)
    monkeypatch.setattr(lists, "monotonic", lambda: 25.0 * server.asked)
    with pytest.raises(Unavailable, match="after 3 pages with few objects or none"):
        await read_pages(server, 5)


async def test_full_pages_may_take_their_time_and_some_may_be_sparse(monkeypatch):
    server = EndlessServer(None)
    monkeypatch.setattr(lists, "monotonic", lambda: 25.0 * server.asked)
    read = 0
    async for page in list_pages(server, Path("/api/v1", "pods"), {}):
        read += len(page.items)
        server.objects = 0 if server.asked in (10, 20) else None
        if server.asked == 200:
            break
    assert read == 198 * lists.PAGE_SIZE


@pytest.mark.parametrize("kind", [PODS, METADATA, dependent_decoder(CONFIG_MAPS)])
def test_an_object_without_metadata_is_unavailable(kind: Decoder[object]):
    with pytest.raises(Unavailable, match="metadata"):
        kind.answer(b"{}")
