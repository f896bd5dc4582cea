"""The page of the cluster in a browser: jobs that need attention, devices, and what the reader may not see."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import job
from support.page_process import PageProcess


@pytest.mark.usefixtures("shared_operator")
def test_a_job_that_fails_needs_attention_and_what_may_not_be_read_is_said_once(
    ui: Ui, visitor: Visitor, user, kubelet: FakeKubelet
):
    user.create(job("TFJob", "crash", Worker=1))
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}/cluster")
    expect(page.get_by_text("None.")).to_be_visible()
    kubelet.end("crash-worker-0", 1, message="ValueError: bad batch")
    expect(page.locator(".needy li")).to_contain_text("ValueError: bad batch")
    expect(page.locator(".needy-advice").first).not_to_be_empty()
    said = page.get_by_text("Not shown, as you may not look")
    expect(said).to_have_count(1)
    expect(said).to_contain_text("list nodes in the whole cluster")


def test_devices_are_counted_and_the_page_is_for_all(served: PageProcess, visitor: Visitor):
    visitor.open(served.link)
    page = visitor.open(served.link.partition("?")[0] + "cluster")
    expect(page.get_by_text("of 5,120 that nodes offer")).to_be_visible()
    expect(page.locator("table.devices tbody tr")).to_have_count(3)
    assert Axe().run(page).response["violations"] == []
    page.emulate_media(color_scheme="dark")
    assert Axe().run(page).response["violations"] == []
    screenshots(page, "cluster")
