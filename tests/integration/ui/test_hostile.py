"""What other clients send to the page, and what users write into jobs: none of them gets in, and texts stay texts."""

from __future__ import annotations

import json
from urllib.parse import urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import job
from support.page_process import PageProcess
from support.user_client import UserClient, eventually

pytestmark = pytest.mark.usefixtures("shared_operator")
#: What must neither run nor be seen as anything but text, nor turn lines around.
MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
HOSTILE = f"{MARKUP} \u202egnirts \x1b[31mred\x1b[0m {'x' * 3000}"
VIEWS = ("", "/ranks", "/logs", "/yaml")
AXE = Axe()


def test_strangers_get_nothing(ui: Ui, visitor: Visitor, browser: Browser):
    path = urlsplit(ui.link)
    assert ui.asked("/") == 403
    assert ui.asked("/?token=wrong") == 403
    visitor.open(ui.link)
    assert ui.asked(f"/?{path.query}") == 403, "a link opens the page once"
    cookie = visitor.cookie(ui)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    own = f"{cookie['name']}={cookie['value']}"
    assert ui.asked("/", Cookie=own) == 200
    assert ui.asked("/", Cookie=own, Host="evil.test") == 421
    assert ui.asked("/static/page.js", Host=f"evil.test:{urlsplit(ui.base).port}") == 421
    for view in ("/", "/live", "/cluster"):
        assert ui.asked(view, Cookie=own, Origin="http://evil.test") == 403
        assert ui.asked(view, Cookie=own, Sec_Fetch_Site="cross-site") == 403
    assert ui.asked("/jobs/a/tfjob/b/delete", "POST", Cookie=own, Origin=ui.base) in (403, 404, 405)
    assert visitor.context.pages[0].evaluate("document.cookie") == ""


def test_a_page_of_others_reads_nothing(ui: Ui, visitor: Visitor):
    visitor.open(ui.link)
    page = visitor.context.new_page()
    page.route("http://evil.test/**", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    page.goto("http://evil.test/")
    script = "async url => { try { return (await fetch(url, {credentials: 'include'})).status } catch { return 0 } }"
    assert page.evaluate(script, f"{ui.base}/") == 0
    stream = (
        "url => new Promise(end => { const s = new EventSource(url, {withCredentials: true});"
        "s.onerror = () => end(0); s.onopen = () => end(1); })"
    )
    assert page.evaluate(stream, f"{ui.base}/live") == 0
    page.goto("about:blank")


@pytest.fixture
def hostile(user: UserClient, kubelet: FakeKubelet) -> str:
    """A job with hostile texts wherever users can write some; the path of its page."""
    wanted = job("TFJob", "hostile", Worker=2)
    wanted["metadata"]["annotations"] = {"example.com/note": HOSTILE}
    user.create(wanted)
    eventually(lambda: user.state("TFJob", "hostile") == "Running")
    kubelet.end("hostile-worker-0", 1, message=HOSTILE + "x" * 1_000_000)
    eventually(lambda: user.state("TFJob", "hostile") == "Failed", 30)
    return f"/jobs/{user.namespace}/tfjob/hostile"


def overflow(page: Page) -> list[str]:
    """Return what is wider than the window, if the document can be scrolled to the side."""
    return page.evaluate(
        "(() => { const most = document.documentElement.clientWidth;"
        "if (document.documentElement.scrollWidth <= most) return [];"
        "return ['the document', "
        "...[...document.querySelectorAll('body *')].filter(e => e.scrollWidth > most)"
        ".map(e => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`).slice(0, 12)] })()"
    )


def test_texts_of_users_stay_texts_in_every_view(ui: Ui, visitor: Visitor, hostile: str, browser: Browser):
    page = visitor.open(ui.link)
    page.on("dialog", lambda dialog: (visitor.complaints.append(dialog.message), dialog.dismiss()))
    paths = ("/", "/cluster", *(hostile + view for view in VIEWS))
    for path in paths:
        page.goto(ui.base + path)
        expect(page.locator("h1").first).to_be_visible()
        assert page.locator("img[src=x], main script").count() == 0
        text = page.inner_text("main")
        assert not {"\u202e", "\x1b"} & set(text), path
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert [found["id"] for found in AXE.run(page).response["violations"]] == [], (path, scheme)
        for width in (320, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert overflow(page) == [], (path, width)
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    page = quiet.new_page()
    for path in paths:
        answer = page.goto(ui.base + path)
        assert answer
        assert answer.status == 200
        expect(page.locator("main")).to_contain_text("hostile")
    quiet.close()


def test_stacks_of_hostile_replicas_stay_texts_and_are_read_by_a_click(
    served: PageProcess, visitor: Visitor, browser: Browser
):
    frames = [["load", "/app/train.py", 7], [HOSTILE, f"/app/{HOSTILE}", 8], *[["f" * 300, "/x.py", 9]] * 60]
    said = json.dumps({"pid": 1, "threads": [{"name": "", "main": True, "frames": frames}]})
    waits = said.replace('"load"', '"all_reduce"')
    served.ask(
        do="stacks", **{"master-0": [waits], "worker-0": [waits], f"worker-{MARKUP}": [said], "worker-2": [HOSTILE]}
    )
    path = "/jobs/ml/pytorchjob/job-0"
    page = visitor.open(served.link)
    page.on("dialog", lambda dialog: (visitor.complaints.append(dialog.message), dialog.dismiss()))
    page.goto(urljoin(served.link, path))
    page.get_by_role("link", name="Stacks", exact=True).click()
    page.get_by_role("button", name="Read the stacks of job-0").click()
    expect(page.locator("#stacks-title")).to_contain_text("ago")
    expect(page.locator(".stack")).to_have_count(2)
    page.get_by_text("All 60 frames").first.click()
    assert page.locator("img[src=x], main script").count() == 0
    assert not {"\u202e", "\x1b"} & set(page.inner_text("main"))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert [found["id"] for found in AXE.run(page).response["violations"]] == [], scheme
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert overflow(page) == [], width
    screenshots(page, "stacks")
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    without = quiet.new_page()
    without.goto(urljoin(served.link, f"{path}/stacks"))
    served.ask(do="stacks")
    without.get_by_role("button", name="Read the stacks of job-0").click()
    expect(without.locator("main")).to_contain_text("No replica runs.")
    quiet.close()


def test_the_keyboard_reaches_every_control_and_focus_is_seen(ui: Ui, visitor: Visitor, hostile: str):
    page = visitor.open(ui.link)
    for path in ("/", hostile):
        page.goto(ui.base + path)
        expect(page.locator("h1").first).to_be_visible()
        wanted = page.evaluate(
            "[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary')]"
            ".filter(e => e.checkVisibility() && !e.disabled).length"
        )
        seen, unseen = set(), []
        for _ in range(wanted * 3):
            page.keyboard.press("Tab")
            found = page.evaluate(
                "(() => { const e = document.activeElement; if (!e || e === document.body) return null;"
                "const s = getComputedStyle(e);"
                "const seen = s.outlineStyle !== 'none' || s.boxShadow !== 'none';"
                "return [[...document.querySelectorAll('*')].indexOf(e), seen,"
                " e.matches('a[href], button, input, select, summary')] })()"
            )
            if found is None:
                break
            place, visible, control = found
            seen |= {place} if control else set()
            unseen += [] if visible else [place]
        assert len(seen) >= wanted, path
        assert unseen == [], path
