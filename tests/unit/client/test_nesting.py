"""Parts of a document that are nested too deeply are left out; the rest of the list is decoded."""

from __future__ import annotations

import json
import logging

import msgspec
import pytest

from trainshed.client.lists import DOCUMENTS, PAGES, PODS, decode_items
from trainshed.client.nesting import MAX_DEPTH, cut_nesting, decode_bounded

ANY = msgspec.json.Decoder()


def _nested(levels: int) -> bytes:
    return b"[" * levels + b'"}]"' + b"]" * levels


def test_a_shallow_document_is_not_changed():
    content = json.dumps({"a": [{"b": ['"}]\\"', "\\", 7]}, []], "{": "["}).encode()
    assert cut_nesting(content) == content


@pytest.mark.slow
@pytest.mark.parametrize("levels", [300, 5000, 200_000])
def test_only_parts_that_are_too_deep_are_left_out(levels: int):
    deep = _nested(levels)
    content = b'{"a": ' + deep + b', "b": [' + deep + b', {"c": "d"}]}'
    found = decode_bounded(ANY, content)
    assert found["b"][1] == {"c": "d"}
    deepest, kept = found["a"], 1
    while isinstance(deepest, list):
        deepest, kept = deepest[0], kept + 1
    assert deepest is None
    assert kept == MAX_DEPTH


@pytest.mark.parametrize("content", [b"[" * 5000, b"]" * 10 + b"[" * 5000, b'{"' + b"[" * 5000])
def test_invalid_json_is_an_error(content: bytes):
    with pytest.raises(msgspec.DecodeError):
        decode_bounded(ANY, content)


def test_a_deep_object_does_not_prevent_decoding_its_page(caplog):
    caplog.set_level(logging.DEBUG)
    deep = b'{"metadata": {"name": "deep"}, "status": {"x": ' + _nested(5000) + b"}}"
    flat = b'{"metadata": {"name": "flat"}}'
    page = PAGES.item(b'{"metadata": {"resourceVersion": "7"}, "items": [' + deep + b"," + flat + b"]}")
    assert [pod.name for pod in decode_items(PODS, page, "pods")] == ["deep", "flat"]
    assert [found["metadata"]["name"] for found in decode_items(DOCUMENTS, page, "tfjobs")] == ["deep", "flat"]
    assert caplog.messages == []
