"""The page of jobs: what it shows, and that it changes by itself."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import job, pytorchjob
from support.user_client import eventually

pytestmark = pytest.mark.usefixtures("shared_operator")
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: bad batch'


def row(page, name):
    return page.locator("tr.job", has=page.get_by_role("link", name=name, exact=True))


def test_a_job_appears_and_fails_before_ones_eyes(ui: Ui, visitor: Visitor, user, kubelet: FakeKubelet):
    page = visitor.open(ui.link)
    expect(page).to_have_url(f"{ui.base}/")
    expect(page.get_by_text("There are no jobs here yet.")).to_be_visible()
    user.create(pytorchjob("fine", Master=1, Worker=1))
    expect(row(page, "fine").locator("span.state")).to_have_text("Running")
    user.create(job("TFJob", "crash", Worker=1))
    expect(row(page, "crash").locator("span.state")).to_have_text("Running")
    kubelet.end("crash-worker-0", 1, message=TRACEBACK)
    expect(row(page, "crash").locator("span.state")).to_have_text("Failed")
    expect(row(page, "crash").locator(".why")).to_contain_text("ValueError: bad batch")
    expect(page.locator("tr.job .job a")).to_have_text(["crash", "fine"])  # the worst first
    screenshots(page, "jobs")
    user.delete_job("TFJob", "crash")
    expect(row(page, "crash")).to_have_count(0)


def test_the_page_of_a_job_tells_its_story_as_it_goes_on(ui: Ui, visitor: Visitor, user, kubelet: FakeKubelet):
    user.create(job("TFJob", "mnist", Worker=1))
    eventually(lambda: user.state("TFJob", "mnist") == "Running")
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}/jobs/{user.namespace}/tfjob/mnist")
    expect(page.get_by_text("has been running for")).to_be_visible()
    kubelet.end("mnist-worker-0", 1, message=TRACEBACK)
    expect(page.get_by_text("has failed after")).to_be_visible()
    expect(page.get_by_text("ValueError: bad batch").first).to_be_visible()


def test_filters_are_part_of_the_address(ui: Ui, visitor: Visitor, user, kubelet: FakeKubelet):
    for name in ("alpha", "beta"):
        user.create(job("TFJob", name, Worker=1))
    page = visitor.open(ui.link)
    expect(page.locator("tr.job")).to_have_count(2)
    page.goto(f"{ui.base}/?text=alp&kind=tfjob&ns={user.namespace}")
    expect(page.locator("tr.job .job a")).to_have_text(["alpha"])
    page.goto(f"{ui.base}/?text=nothing")
    page.get_by_role("link", name="Show all jobs").click()
    expect(page.locator("tr.job")).to_have_count(2)


def test_the_page_reads_without_script_and_for_all(ui: Ui, visitor: Visitor, browser, user, kubelet: FakeKubelet):
    user.create(job("TFJob", "mnist", Worker=1))
    page = visitor.open(ui.link)
    expect(row(page, "mnist").locator("span.state")).to_have_text("Running")
    assert Axe().run(page).response["violations"] == []
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    page = quiet.new_page()
    page.goto(f"{ui.base}/?text=mnist")
    expect(row(page, "mnist").locator("span.state")).to_have_text("Running")
    quiet.close()
