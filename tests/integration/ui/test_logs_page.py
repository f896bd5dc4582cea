"""The page of logs in a browser: it follows, filters and finds; ten thousand lines, and hostile ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import job
from support.log_server import LogServer
from support.page_process import CHATTY, PageProcess
from support.people import Person
from support.tcp_proxy import TcpProxy
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from testbed.ports import free_port
from trainshed.api.coerce import format_time

PATH = f"jobs/ml/pytorchjob/{CHATTY}/logs"
HOSTILE = (
    "<script>document.title = 'hostile'</script><img src=x onerror=alert(1)>",
    "\u202eevil \x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m",
    "nothing\0here",
    "x" * 1_000_000,
)


@pytest.fixture
def logs(served: PageProcess, visitor: Visitor) -> Page:
    """The page of logs of a job of eight replicas, with a line of each."""
    served.ask(do="write", lines=["the first line"])
    visitor.open(served.link)
    page = visitor.open(served.link.partition("?")[0] + PATH)
    expect(page.locator("#log:not([aria-busy]) .line")).to_have_count(8)
    return page


def lines(page: Page, text: str = ""):
    """Return all lines, or those with a text: the time before it, which is hidden, is no part of it."""
    return page.locator("#log .line > span", has_text=text) if text else page.locator("#log .line")


def test_lines_appear_while_they_are_written_and_filters_are_part_of_the_address(logs: Page, served: PageProcess):
    served.ask(do="write", lines=["step 1 loss 2.5", "WARNING: slow"])
    expect(lines(logs, "step 1")).to_have_count(8)
    expect(logs.locator("#log .line.warning")).to_have_count(8)
    logs.get_by_label("Filter").fill("LOSS")
    expect(lines(logs)).to_have_count(8)
    logs.get_by_text("Replicas: all 8").click()
    logs.get_by_role("checkbox", name="worker-3").check()
    expect(logs.locator("#log .line > span")).to_have_text(["step 1 loss 2.5"])
    assert "replica=worker-3" in logs.url
    served.ask(do="write", lines=["step 2", "step 2 loss 2.4"])
    expect(lines(logs, "step 2 loss 2.4")).to_have_count(1)
    expect(lines(logs)).to_have_count(2)
    logs.get_by_label("regular expression").check()
    logs.get_by_label("Filter").fill("(")
    expect(logs.locator("#log-state")).to_contain_text("( is no regular expression of RE2")


def test_ten_thousand_lines_are_there_and_the_oldest_go(logs: Page, served: PageProcess):
    served.ask(do="write", lines=["old {n}", "new {n}"], times=700)
    logs.reload()
    expect(lines(logs, "new 699")).to_have_count(8)
    expect(logs.locator("#log-state")).to_contain_text("The last 10,000 lines of 8 replicas")
    served.ask(do="write", lines=["{n} more"], times=100)
    expect(lines(logs, "99 more")).to_have_count(8)
    assert 10_000 <= logs.locator("#log .line").count() <= 10_050


def test_a_flood_is_cut_and_says_so(logs: Page, served: PageProcess):
    served.ask(do="write_fast", seconds=4, each=40_000)
    expect(logs.locator("#log .left-out").first).to_contain_text("lines were left out")
    logs.get_by_label("Find").fill("left out")
    expect(logs.locator("#log-found")).not_to_have_text("none")


def test_hostile_lines_do_nothing(logs: Page, served: PageProcess):
    served.ask(do="write", lines=HOSTILE)
    assert_harmless(logs, 8)


def assert_harmless(page: Page, replicas: int) -> None:
    """Assert that each replica has said the hostile lines, and that they are text, and not much."""
    expect(lines(page, "<script>document.title")).to_have_count(replicas)
    expect(lines(page, "evil red")).to_have_count(replicas)
    expect(lines(page, "here")).to_have_count(replicas)
    expect(lines(page, "more characters").first).to_be_visible()
    assert "hostile" not in page.title()
    text = page.locator("#log").inner_text()
    assert not {"\u202e", "\x1b", "\x07", "\0"} & set(text)
    assert len(text) < replicas * 17 * 2_200


def test_a_text_is_found_with_the_keyboard_alone(logs: Page, served: PageProcess):
    served.ask(do="write", lines=["needle {n}", *["hay"] * 20], times=10)
    expect(lines(logs, "needle 9")).to_have_count(8)
    logs.locator("#log").focus()
    logs.keyboard.press("/")
    logs.keyboard.type("NEEDLE 3")
    expect(logs.locator("#log-found")).to_have_text("8 of 8")
    logs.keyboard.press("Enter")
    expect(logs.locator("#log-found")).to_have_text("1 of 8")
    expect(logs.locator("#log .here")).to_be_in_viewport()
    expect(logs.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "false")
    logs.locator("#log").focus()
    logs.keyboard.press("End")
    expect(lines(logs, "hay").last).to_be_in_viewport()
    logs.get_by_label("Find").fill(":")
    expect(logs.locator("#log-found")).to_have_text("none")
    logs.get_by_label("times").check()
    expect(logs.locator("#log-found")).to_have_text(f"\N{EN DASH} of {8 * 211}")


def test_the_page_reads_without_script_and_for_all(logs: Page, served: PageProcess, visitor: Visitor, browser):
    served.ask(do="write", lines=["needle", "hay", "\x1b[31mRuntimeError: no\x1b[0m", "WARNING: slow"])
    expect(lines(logs, "needle")).to_have_count(8)
    assert Axe().run(logs).response["violations"] == []
    logs.emulate_media(color_scheme="dark")
    assert Axe().run(logs).response["violations"] == []
    quiet = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    page = quiet.new_page()
    page.goto(logs.url.partition("?")[0])
    page.get_by_label("Filter").fill("needle")
    page.get_by_role("button", name="Show").click()
    expect(lines(page)).to_have_count(8)
    screenshots(logs, "logs")
    quiet.close()


def said(pod: str, number: int) -> str:
    """What a container of the real API server has said: hostile lines long ago, then a line from time to time."""
    if not number:
        return "".join(f"2026-01-01T00:00:00.{place:09}Z {text}\n" for place, text in enumerate(HOSTILE))
    return f"{format_time(datetime.now(UTC))} {pod} says {number}\n"


@pytest.mark.usefixtures("shared_operator")
def test_logs_of_a_real_api_server_are_followed_through_an_outage(
    reader: Person, visitor: Visitor, user, server: ControlPlane, tmp_path: Path
):
    with (
        TcpProxy.start(urlsplit(server.url).port) as way,
        LogServer.start(user, "node-0", said, 1) as kubelet,
        FakeKubelet(user),
    ):
        user.create(job("TFJob", "mnist", Worker=2))
        ui = Ui.start(Person(way.kubeconfig(reader.config, tmp_path), user.namespace))
        visitor.open(ui.link)
        page = visitor.open(f"{ui.base}/jobs/{user.namespace}/tfjob/mnist/logs")
        for worker in ("mnist-worker-0", "mnist-worker-1"):
            expect(lines(page, f"{worker} says 2").first).to_be_visible()
        expect(page.locator("#link")).to_have_text("live")
        assert_harmless(page, 2)
        there, way.target = way.target, free_port()
        way.cut()
        expect(page.locator("#notices .outage")).to_contain_text("The API server does not answer")
        expect(page.locator("#log-state")).to_contain_text("worker-0: reading the log")
        before = lines(page).count()
        way.target = there
        expect(lines(page).nth(before + 2)).to_be_visible()
        expect(page.locator("#notices p")).to_have_count(0)
        expect(page.locator("#log-state")).not_to_contain_text("reading the log")
        field = page.get_by_label("Filter")
        field.press_sequentially("WORKER-1 SAYS")
        expect(lines(page, "mnist-worker-0 says")).to_have_count(0)
        expect(lines(page, "mnist-worker-1 says").first).to_be_visible()
        expect(field).to_be_focused()
        visitor.leave()
        ui.stop()
        eventually(lambda: kubelet.open == 0)
