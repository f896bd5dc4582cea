"""The pages of one job: they change before one's eyes, keep what was opened, and stay when the job has gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import pytorchjob
from support.people import WRITES, Person, person
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: bad batch'
PAGES = ("", "/ranks", "/logs", "/yaml")


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
    logs = visitor.open(f"{ui.base}{path}/logs")
    expect(logs.locator("#link")).to_have_text("live")
    user.delete_job("PyTorchJob", "mnist")
    for one in (page, logs):
        expect(one.locator(".banner")).to_contain_text("This job was deleted")
    for place in PAGES:
        page.goto(f"{ui.base}{path}{place}")
        expect(page.locator(".banner")).to_contain_text("This job was deleted")
        expect(page.locator("main")).to_contain_text("mnist")


def test_each_page_reads_without_script_and_for_all(ui: Ui, visitor: Visitor, browser, path):
    page = visitor.open(ui.link)
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    for place, words in zip(
        PAGES, ("Where the time went", "3 replicas", "Replicas: all 3", "kind: PyTorchJob"), strict=True
    ):
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


# ------------------------------------------------------------------------------------------------------------ actions


@pytest.fixture
def acting(server: ControlPlane, user: UserClient, tmp_path: Path) -> Iterator[Ui]:
    """The page of a user who may change jobs, with actions."""
    found = Ui.start(person(server, user, tmp_path, WRITES), "--allow-actions")
    yield found
    found.stop()


def act(page: Page, name: str) -> None:
    """Do something to the job with the mouse: first it is opened, then done."""
    page.locator("#actions summary", has_text=name).click()
    page.get_by_role("button", name=f"{name} mnist").click()


def test_a_job_is_suspended_resumed_and_restarted(acting: Ui, visitor: Visitor, path, user):
    visitor.open(acting.link)
    page = visitor.open(f"{acting.base}{path}")
    offered, state = page.locator("#actions summary"), page.locator(".job-state")
    expect(offered).to_have_text(["Suspend", "Restart", "Delete"])
    act(page, "Suspend")
    expect(page).to_have_url(f"{acting.base}{path}")
    expect(state).to_have_text("Suspended")
    expect(offered).to_have_text(["Resume", "Delete"])
    assert user.job("PyTorchJob", "mnist")["spec"]["runPolicy"]["suspend"] is True
    act(page, "Resume")
    expect(state).to_have_text("Running")
    expect(offered).to_have_text(["Suspend", "Restart", "Delete"])
    eventually(lambda: user.pod("mnist-worker-1"))
    before = user.pod("mnist-worker-1")["metadata"]["uid"]
    act(page, "Restart")
    eventually(lambda: (user.pod("mnist-worker-1") or {"metadata": {"uid": before}})["metadata"]["uid"] != before, 30)
    expect(state).to_have_text("Running")


def test_a_job_is_deleted_by_keyboard_and_without_script(acting: Ui, visitor: Visitor, browser, path, user):
    page = visitor.open(acting.link)
    page.goto(f"{acting.base}{path}")
    page.locator("#actions summary", has_text="Restart").click()
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    without = quiet.new_page()
    without.goto(f"{acting.base}{path}")
    without.locator("#actions summary", has_text="Delete").focus()
    expect(without.get_by_text("It cannot be undone.")).to_be_hidden()
    without.keyboard.press("Enter")
    expect(without.get_by_text("It cannot be undone.")).to_be_visible()
    assert user.job("PyTorchJob", "mnist")
    without.keyboard.press("Tab")
    expect(without.get_by_role("button", name="Delete mnist")).to_be_focused()
    without.keyboard.press("Enter")
    expect(without).to_have_url(f"{acting.base}{path}")
    eventually(lambda: user.job("PyTorchJob", "mnist") is None)
    quiet.close()
    expect(page.locator(".banner")).to_contain_text("This job was deleted")
    expect(page.locator("#actions summary")).to_have_count(0)


def form_headers(ui: Ui, visitor: Visitor) -> dict[str, str]:
    """Return the headers with which the browser sends a form of the page."""
    cookie = visitor.cookie(ui)
    own = {"Cookie": f"{cookie['name']}={cookie['value']}", "Origin": ui.base}
    return own | {"Content-Type": "application/x-www-form-urlencoded"}


def test_only_forms_of_the_page_change_jobs(acting: Ui, visitor: Visitor, path, user):
    visitor.open(acting.link)
    page = visitor.open(f"{acting.base}{path}")
    csrf = page.locator("input[name=csrf]").first.get_attribute("value")
    own, good = form_headers(acting, visitor), f"csrf={csrf}"
    for body, headers in (
        ("", own),
        ("csrf=", own),
        ("csrf=wrong", own),
        (good, own | {"Origin": "http://evil.test"}),
        (good, own | {"Origin": "null"}),
        (good, {name: value for name, value in own.items() if name != "Origin"}),
        (good, own | {"Sec-Fetch-Site": "cross-site"}),
        (good, {name: value for name, value in own.items() if name != "Cookie"}),
    ):
        for action in ("delete", "suspend"):
            assert acting.asked(f"{path}/{action}", "POST", body, **headers) == 403, (body, headers)
    assert acting.asked(f"{path}/delete", "GET", **own) in (404, 405)
    assert user.state("PyTorchJob", "mnist") == "Running"
    assert acting.asked(f"{path}/suspend", "POST", good, **own) == 303, "the same as a form is carried out"


def test_without_the_flag_nothing_can_be_changed(ui: Ui, visitor: Visitor, path, user):
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}{path}")
    expect(page.locator(".job-state")).to_have_text("Running")
    expect(page.locator("form[method=post]")).to_have_count(0)
    for action in ("suspend", "resume", "restart", "delete"):
        assert ui.asked(f"{path}/{action}", "POST", "csrf=", **form_headers(ui, visitor)) == 404
    assert user.state("PyTorchJob", "mnist") == "Running"


def test_a_user_who_may_not_change_a_job_sees_why(reader: Person, visitor: Visitor, path):
    ui = Ui.start(reader, "--allow-actions")
    visitor.open(ui.link)
    page = visitor.open(f"{ui.base}{path}")
    act(page, "Suspend")
    expect(page.get_by_role("heading", name="mnist is not changed")).to_be_visible()
    expect(page.locator("main")).to_contain_text("cannot patch")
    page.get_by_role("link", name="Back to mnist").click()
    expect(page.locator(".job-state")).to_have_text("Running")
    visitor.leave()
    ui.stop()
    (complaint,) = visitor.complaints
    assert "409" in complaint, "what Chromium logs for the answer"
    visitor.complaints.clear()
