"""The page of ranks on screens of all widths: a phone has nothing to point with, and no name is cut there."""

from __future__ import annotations

from urllib.parse import urljoin

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support.browsing import Visitor, screenshots
from support.page_cluster import NODE
from support.page_process import PageProcess

#: How many names of nodes and replicas are not seen as a whole, of a table with so many rows.
CUT = """() => {
  const found = [...document.querySelectorAll(".ranks tbody .node, .ranks tbody .replica")];
  return [found.length, found.filter(one => !one.offsetWidth || one.scrollWidth > one.clientWidth).length];
}"""


def test_names_of_nodes_are_whole_at_every_width(served: PageProcess, visitor: Visitor):
    page = visitor.open(served.link)
    page.goto(urljoin(served.link, "/jobs/ml/pytorchjob/job-0/ranks"))
    expect(page.locator(".ranks tbody .node").first).to_have_text(NODE)
    for width in (320, 390, 800, 1280, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(CUT) == [16, 0], width
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert Axe().run(page).response["violations"] == [], width
    expect(page.get_by_role("row")).to_have_count(9)
    screenshots(page, "ranks")
