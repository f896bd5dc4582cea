"""Texts cut to a length in bytes of JSON, whatever characters they are of."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainshed.api import coerce

#: Surrogates are left out: they cannot be sent or stored.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
MOST = st.integers(3, 200)


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [("abc", 5), ("ü", 4), ("€", 5), ("😀", 6), ("<&>", 20), ('"\\', 6), ("\x1b", 8), ("\n", 4), ("\u2028", 8)],
)
def test_a_character_weighs_what_go_makes_of_it(value, bytes_):
    assert coerce.json_size(value) == bytes_


@given(TEXT)
@example("".join(map(chr, range(256))))
def test_a_text_weighs_what_it_does_in_a_document(text):
    for part in (text, *text):
        assert coerce.text_size(part) == coerce.json_size({"a": part}) - len('{"a":""}')


def test_a_document_weighs_what_it_has_without_blanks():
    assert coerce.json_size({"a": [1, "x"], "b": None}) == len('{"a":[1,"x"],"b":null}')


@given(TEXT, MOST)
def test_a_text_is_kept_or_cut_at_the_end_that_was_named(text, most):
    first, last = coerce.truncate_end(text, most), coerce.truncate_start(text, most)
    for cut in (first, last):
        assert coerce.json_size(cut) - 2 <= most
        assert json.loads(json.dumps(cut)) == cut
    if coerce.json_size(text) - 2 <= most:
        assert first == last == text
    else:
        assert text.startswith(first.removesuffix("…"))
        assert text.endswith(last.removeprefix("…"))


@given(TEXT, MOST)
def test_what_is_cut_is_not_cut_again(text, most):
    assert coerce.truncate_end(coerce.truncate_end(text, most), most) == coerce.truncate_end(text, most)
    assert coerce.truncate_start(coerce.truncate_start(text, most), most) == coerce.truncate_start(text, most)


def test_as_much_is_kept_as_there_is_room_for():
    assert coerce.truncate_end("a" * 20, 10) == "a" * 7 + "…"
    assert coerce.truncate_start("ab" * 10, 10) == "…" + "bababab"
