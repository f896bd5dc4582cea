"""The pages of ten broken jobs in a real browser: for all readers and at all widths, with their curves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from support.broken_jobs import BROKEN, WELL
from support.browsing import Visitor, screenshots
from support.builders import at
from support.sampling import sampled
from trainshed.ui.access import HEADERS
from trainshed.ui.listening import STATIC
from trainshed.ui.model import PageFrame
from trainshed.ui.pages import job, ranks

BASE = "http://pages.test"
#: The other headers are for an address that browsers trust, as loopback is.
POLICY = {"Content-Security-Policy": HEADERS["Content-Security-Policy"]}
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@pytest.fixture
def reader(browser: Browser) -> Iterator[Visitor]:
    """A user who looks at prepared pages, under the policy of the server."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.route(f"{BASE}/**", answer)
    found = Visitor(context)
    yield found
    context.close()
    assert found.complaints == []


def answer(route: Route) -> None:
    """Answer with a static file, or with the page of a prepared job."""
    path = route.request.url.removeprefix(BASE)
    if path.startswith("/static/"):
        file = STATIC / path.removeprefix("/static/")
        route.fulfill(body=file.read_bytes(), content_type=TYPES[file.suffix])
        return
    name, _, place = path.removeprefix("/").partition("/")
    play, now = (BROKEN | WELL)[name]()
    draw = ranks.page if place else job.page
    html = str(draw(play.file(now), PageFrame(at(now), place="cluster dev")))
    route.fulfill(body=html, content_type="text/html", headers=POLICY)


def is_wider_than_the_window(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.parametrize("name", sampled([*BROKEN, *WELL], "crash-loop", "evicted", "stalled-rank", "healthy"))
def test_the_page_of_a_broken_job_is_for_all_readers_and_all_widths(reader: Visitor, name):
    page = reader.open(f"{BASE}/{name}")
    expect(page.locator(".job-state")).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert Axe().run(page).response["violations"] == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert not is_wider_than_the_window(page)
    screenshots(page, f"broken-{name}")


def test_curves_are_drawn_under_the_policy_and_say_their_values_where_the_pointer_is(reader: Visitor):
    page = reader.open(f"{BASE}/healthy")
    expect(page.locator(".curve canvas")).to_have_count(3)
    steps = page.locator(".curve-value").first
    expect(steps).to_have_text("5340")
    page.locator(".curve .u-over").nth(1).hover(position={"x": 1, "y": 20})
    expect(steps).to_have_text("60")


def test_the_page_of_ranks_is_for_all_readers_and_all_widths(reader: Visitor):
    page = reader.open(f"{BASE}/evicted/ranks")
    assert Axe().run(page).response["violations"] == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert not is_wider_than_the_window(page)
    expect(page.get_by_text("gpu-node-05")).to_be_visible()
