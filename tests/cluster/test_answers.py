"""Answers of the server, read: what makes no sense is no answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainshed.cluster import Unavailable, answers

META = b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}'


def test_each_kind_of_answer_is_read():
    assert answers.pod(META + b', "spec": {}, "status": {"phase": "Running"}}').name == "a"
    assert answers.service(META + b"}").uid == "u"
    assert answers.meta(META + b', "data": 7}').name == "a"
    assert answers.document(META + b"}")["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize("read", [answers.pod, answers.service, answers.meta, answers.document])
@pytest.mark.parametrize("content", [b"", b"<html>", META], ids=["nothing", "a page", "half"])
def test_what_makes_no_sense_is_no_answer(read: Callable[[bytes], object], content: bytes):
    with pytest.raises(Unavailable, match="makes no sense"):
        read(content)
