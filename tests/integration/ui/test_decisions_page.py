"""The slider through the decisions about a job: by keyboard, without script, and for all."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support.browsing import Visitor, screenshots
from support.page_process import PageProcess


def test_the_slider_shows_each_decision_and_its_address(served: PageProcess, visitor: Visitor, browser):
    served.ask(do="decide", job=0)
    page = visitor.open(served.link)
    page.goto(served.link.partition("?")[0] + "jobs/ml/pytorchjob/job-0/decisions")
    slider, decision = page.get_by_role("slider", name="Step"), page.locator("#decision")
    expect(decision).to_contain_text("Decision 2")
    slider.focus()
    page.keyboard.press("Home")
    expect(decision).to_contain_text("Decision 1")
    expect(page).to_have_url(re.compile(r"/decisions\?decision=1$"))
    expect(slider).to_be_focused()
    page.get_by_role("link", name="Next").click()
    expect(decision).to_contain_text("exit code 137 (OOMKilled)")
    expect(slider).to_have_value("2")
    page.get_by_role("combobox").select_option("mnist-worker-1")
    expect(page.get_by_text("step 1 of 1")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert Axe().run(page).response["violations"] == []
    page.get_by_role("combobox").select_option("all")
    expect(page.get_by_text("step 2 of 2")).to_be_visible()
    screenshots(page, "decisions")
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    without = quiet.new_page()
    without.goto(page.url)
    without.get_by_role("slider", name="Step").press("Home")
    without.locator(".slider").get_by_role("button", name="Show").click()
    expect(without.locator("#decision")).to_contain_text("Decision 1")
    quiet.close()
