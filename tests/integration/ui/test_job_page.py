"""The pages of one job: they change before one's eyes, keep what was opened, and stay when the job has gone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import pytorchjob
from support.user_client import eventually

pytestmark = pytest.mark.usefixtures("shared_operator")
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: bad batch'
PAGES = ("", "/ranks", "/yaml")


@pytest.fixture
def path(user, kubelet: FakeKubelet) -> str:
    """The path of the page of a job that runs."""
    user.create(pytorchjob("mnist", Master=1, Worker=2))
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
    return f"/jobs/{user.namespace}/pytorchjob/mnist"


def bars(page: Page, name: str):
    return page.locator("table.timeline tr", has=page.get_by_role("rowheader", name=name, exact=True)).locator(
        "svg.bars"
    )


def test_a_replica_fails_before_ones_eyes_and_what_was_opened_stays_open(ui: Ui, visitor: Visitor, path, kubelet):
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}{path}")
    expect(page.locator(".job-state")).to_have_text("Running")
    expect(bars(page, "worker-1").locator("rect.act-running")).to_have_count(1)
    page.get_by_text("Times as a table").click()
    table = page.get_by_role("columnheader", name="Length")
    expect(table).to_be_visible()
    kubelet.end("mnist-worker-1", 1, message=TRACEBACK)
    expect(page.locator(".job-state")).to_have_text("Failed")
    expect(page.locator(".causes")).to_contain_text("ValueError: bad batch")
    expect(bars(page, "worker-1").locator(".sign-failed")).to_have_count(1)
    expect(page.locator(".advice")).to_contain_text("What to do")
    expect(page.locator("table.events")).to_contain_text("ExitedWithCode")
    expect(table).to_be_visible()
    screenshots(page, "job")


def test_a_job_that_was_deleted_stays_readable(ui: Ui, visitor: Visitor, path, user):
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}{path}")
    expect(page.locator(".job-state")).to_have_text("Running")
    user.delete_job("PyTorchJob", "mnist")
    expect(page.locator(".banner")).to_contain_text("This job was deleted")
    for place in PAGES:
        page.goto(f"{ui.base}{path}{place}")
        expect(page.locator(".banner")).to_contain_text("This job was deleted")
        expect(page.locator("main")).to_contain_text("mnist")


def test_each_page_reads_without_script_and_for_all(ui: Ui, visitor: Visitor, browser, path):
    page = visitor.open(ui.link)
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    for place, words in zip(PAGES, ("Where the time went", "3 replicas", "kind: PyTorchJob"), strict=True):
        page.goto(f"{ui.base}{path}{place}")
        expect(page.locator("main")).to_contain_text(words)
        assert Axe().run(page).response["violations"] == []
        without = quiet.new_page()
        without.goto(f"{ui.base}{path}{place}")
        expect(without.locator("main")).to_contain_text(words)
    quiet.close()


def test_ranks_are_sorted_by_links_and_the_next_change_keeps_the_order(ui: Ui, visitor: Visitor, path, kubelet):
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}{path}/ranks")
    rows = page.locator("table.ranks tbody th.replica")
    expect(rows).to_have_text(["master-0", "worker-0", "worker-1"])
    page.get_by_role("link", name="State").click()
    kubelet.end("mnist-worker-1", 1)
    expect(rows).to_have_text(["worker-1", "master-0", "worker-0"])
