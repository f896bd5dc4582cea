"""The page of jobs: what it shows, and that it changes by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import FakeKubelet
from support.browsing import Ui, Visitor, screenshots
from support.jobs import job, pytorchjob
from support.people import RBAC, Person
from support.tcp_proxy import TcpProxy
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane
from testbed.ports import free_port

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
    field = page.get_by_label("Text")
    field.press_sequentially("alp")
    expect(page.locator("tr.job .job a")).to_have_text(["alpha"])
    expect(page).to_have_url(f"{ui.base}/?text=alp")
    expect(field).to_be_focused()
    page.keyboard.type("s")
    expect(page.get_by_role("link", name="Show all jobs")).to_be_visible()
    assert field.input_value() == "alps"
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


def test_a_job_whose_pods_may_not_be_created_is_blocked_until_they_may(ui: Ui, visitor: Visitor, user, kubelet):
    user.make("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    quota = f"/api/v1/namespaces/{user.namespace}/resourcequotas/none"
    eventually(lambda: "hard" in user.call("GET", quota).get("status", {}), 30)
    user.create(job("TFJob", "mnist", Worker=1))
    page = visitor.open(ui.link)
    expect(row(page, "mnist").locator("span.state")).to_have_text("Blocked")
    expect(row(page, "mnist").locator(".why")).to_contain_text("quota")
    expect(page.locator("#counts")).to_contain_text("Blocked 1")
    user.delete("resourcequotas", "none")
    expect(row(page, "mnist").locator("span.state")).to_have_text("Running", timeout=60_000)


@pytest.fixture
def way(server: ControlPlane) -> Iterator[TcpProxy]:
    """The way to the API server, which a test breaks."""
    with TcpProxy.start(urlsplit(server.url).port) as found:
        yield found


@pytest.fixture
def far(way: TcpProxy, reader: Person, user: UserClient, tmp_path: Path) -> Person:
    """The reader, at the other end of the way."""
    return Person(way.kubeconfig(reader.config, tmp_path), user.namespace)


def test_the_api_server_goes_and_comes_back(visitor: Visitor, user, kubelet: FakeKubelet, way: TcpProxy, far: Person):
    user.create(job("TFJob", "mnist", Worker=1))
    ui = Ui.start(far)
    there, page = way.target, visitor.open(ui.link)
    expect(row(page, "mnist").locator("span.state")).to_have_text("Running")
    pages = [page, *(visitor.open(f"{ui.base}{path}") for path in (of_mnist(user), "/cluster"))]
    way.target = free_port()
    way.cut()
    for one in pages:
        expect(one.locator("#notices .outage")).to_contain_text("The API server does not answer")
        one.reload()
        expect(one.locator("#notices .outage")).to_contain_text("what was known before")
    expect(pages[1].locator(".job-state")).to_have_text("Running")
    kubelet.end("mnist-worker-0", 1)
    eventually(lambda: user.state("TFJob", "mnist") == "Failed")
    assert row(page, "mnist").locator("span.state").inner_text() == "Running"
    way.target = there
    expect(row(page, "mnist").locator("span.state")).to_have_text("Failed")
    for one in pages:
        expect(one.locator("#notices p:not(.refused)")).to_have_count(0)
    visitor.leave()
    ui.stop()


def of_mnist(user: UserClient) -> str:
    return f"/jobs/{user.namespace}/tfjob/mnist"


PLUGIN = """
import json, pathlib, time
until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
answer = {{"token": pathlib.Path({token!r}).read_text(), "expirationTimestamp": until}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": answer}}))
"""


def laptop(user: UserClient, original: Path, token: Path, way: str) -> Person:
    """A service account that may read, whose kubeconfig has a token from a file or from a plugin that reads it."""
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": sys.executable}
    spec["args"] = ["-c", PLUGIN.format(token=str(token))]
    config = yaml.safe_load(original.read_text())
    config["users"][0]["user"] = {"tokenFile": str(token)} if way == "file" else {"exec": spec}
    kubeconfig = original.with_name(f"{way}.kubeconfig")
    kubeconfig.write_text(yaml.safe_dump(config))
    return Person(kubeconfig, user.namespace)


def test_credentials_that_expire_are_said_and_the_page_goes_on_after_a_new_login(
    visitor: Visitor, user, way: TcpProxy, far: Person
):
    made = user.make("serviceaccounts", {"metadata": {"name": "laptop"}})["metadata"]
    subject = {"kind": "ServiceAccount", "name": "laptop", "namespace": user.namespace}
    role = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
    binding = {"metadata": {"name": "laptop"}, "roleRef": role, "subjects": [subject]}
    user.call("POST", f"/apis/{RBAC}/v1/namespaces/{user.namespace}/rolebindings", binding)
    path = f"/api/v1/namespaces/{user.namespace}/serviceaccounts/{made['name']}/token"
    valid = user.call("POST", path, {"spec": {}})["status"]["token"]
    token = far.config.with_name("token")
    token.write_text(valid)
    uis = [Ui.start(laptop(user, far.config, token, one)) for one in ("file", "plugin")]
    pages = [visitor.open(ui.link) for ui in uis]
    user.create(job("TFJob", "first", Worker=1))
    for page in pages:
        expect(row(page, "first")).to_be_visible()
    token.write_text("expired")
    way.cut()
    for page in pages:
        expect(page.locator("#notices .credentials")).to_contain_text("Log in to the cluster again")
        expect(row(page, "first")).to_be_visible()
    user.create(job("TFJob", "second", Worker=1))
    token.write_text(valid)
    for page in pages:
        expect(row(page, "second")).to_be_visible()
        expect(page.locator("#notices p")).to_have_count(0)
    visitor.leave()
    for ui in uis:
        ui.stop()
