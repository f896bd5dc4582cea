"""Lists are read in pages or as a whole, and each kind is decoded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trainshed.api.objects import CONFIG_MAPS
from trainshed.client import Unavailable, lists
from trainshed.client.lists import DOCUMENTS, METADATA, PAGES, PODS, SERVICES, Decoder, dependent_decoder, list_pages
from trainshed.client.transport import Path

OBJECT = b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "data": {"k": "v"}}'


@pytest.mark.parametrize(("whole", "sizes"), [(False, [2, 2, 1]), (True, [5])])
async def test_a_list_is_read_in_pages_or_as_a_whole(wire, user, monkeypatch, whole, sizes):
    monkeypatch.setattr(lists, "PAGE_SIZE", 2)
    for number in range(5):
        user.make("configmaps", {"metadata": {"name": f"c-{number}", "labels": {"own": "1"}}})
    path = Path("/api/v1", "configmaps", user.namespace)
    found = [page async for page in list_pages(wire, path, {"labelSelector": "own"}, whole=whole)]
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


@pytest.mark.parametrize("kind", [PODS, METADATA, dependent_decoder(CONFIG_MAPS)])
def test_an_object_without_metadata_is_unavailable(kind: Decoder[object]):
    with pytest.raises(Unavailable, match="metadata"):
        kind.answer(b"{}")
