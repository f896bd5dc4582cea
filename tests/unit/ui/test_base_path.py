"""Links of pages below another path; what users have written stays as it is."""

from __future__ import annotations

import json

import pytest
from htpy import Element, a, body, form, img, link, p

from trainshed.ui.base_path import with_base


def text_of(element: Element) -> str:
    """The element as it is answered, which is plain text."""
    return f"<!doctype html>{element}"


HOSTILE = ' href="/x" src="/y" '


@pytest.mark.parametrize(
    "element", [a(href="/jobs/a"), link(rel="x", href="/"), img(src="/static/a"), form(action="/")]
)
def test_links_begin_with_the_base(element: Element):
    found = with_base(text_of(element), "/base")
    assert '="/base/' in found
    assert found.replace("/base/", "/") == text_of(element)


def test_the_same_in_json():
    message = json.dumps({"html": {"x": text_of(body(data_live="/live?a=1&b=2")[a(href="/")["x"]])}})
    assert json.loads(with_base(message, "/b"))["html"]["x"] == (
        '<!doctype html><body data-live="/b/live?a=1&amp;b=2"><a href="/b/">x</a></body>'
    )


@pytest.mark.parametrize(
    "element", [p[HOSTILE], p(title=HOSTILE)["x"], a(href="https://a.test/"), a(href="//a.test/"), a(href="#main")]
)
def test_texts_and_other_sites_stay(element: Element):
    assert with_base(text_of(element), "/base") == text_of(element)
    assert json.loads(with_base(json.dumps(text_of(element)), "/base")) == text_of(element)


def test_without_a_base_nothing_is_done():
    assert with_base('<a href="/">', "") == '<a href="/">'
