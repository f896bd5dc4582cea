"""The page for a team as docs/ui.md describes it: behind nginx, with the rights of each user alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3
import yaml
from playwright.sync_api import Browser, BrowserContext, expect

from charts.conftest import helm
from charts.rendering import Release
from docs import how_to
from support import UserClient
from support.browsing import SCREENSHOTS, Visitor
from support.jobs import pytorchjob
from support.kubectl import Kubectl
from support.user_client import eventually
from testbed import debian
from testbed.control_plane import ControlPlane
from testbed.ports import free_port
from testbed.processes import Process

__all__ = ["helm"]
PAGE = how_to.ROOT / "docs" / "ui.md"
ACCOUNT = "system:serviceaccount:trainshed-system:trainshed-ui"
USER, SECRET = "X-Forwarded-User", "X-Trainshed-Proxy-Secret"
BASE = "/trainshed/"
#: Passwords of the users are their names.
ALICE, BOB = "alice@example.com", "bob@example.com"
HTTP = urllib3.PoolManager(retries=False, timeout=30)


@dataclass(frozen=True)
class TeamPage:
    """Where the proxy answers, and where the page does past it."""

    proxy: str
    direct: str
    secret: str

    def asked(self, path: str, user: str, **headers: str) -> urllib3.BaseHTTPResponse:
        """Ask the proxy as a user who knows the password."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return HTTP.request("GET", self.proxy + path, headers=urllib3.make_headers(basic_auth=f"{user}:{user}") | sent)

    def shown(self, path: str, user: str, **headers: str) -> str:
        """Return the text of a page that a user gets."""
        answer = self.asked(path, user, **headers)
        assert answer.status == 200, answer.data
        return answer.data.decode()

    def past_the_proxy(self, path: str, *headers: tuple[str, str], method: str = "GET") -> int:
        """Return the status of the answer to a request that does not come from the proxy."""
        return HTTP.request(method, self.direct + path, headers=urllib3.HTTPHeaderDict(headers)).status


def proxy_config(folder: Path, port: int, upstream: str) -> Path:
    """The configuration of the page of the docs, with the addresses and files of this test."""
    (text,) = how_to.code(PAGE, "nginx")
    own = " ".join(f"{what}_temp_path {folder};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    for shown, here in (
        ("listen 8443", f"listen 127.0.0.1:{port}"),
        ("http://trainshed-ui.trainshed-system.svc", f"http://{upstream}"),
        ("/etc/nginx/users", str(folder / "users")),
        ("http {", f"http {{ access_log off; {own}"),
    ):
        assert shown in text
        text = text.replace(shown, here)
    (folder / "users").write_text("".join(f"{name}:{{PLAIN}}{name}\n" for name in (ALICE, BOB)))
    (folder / "nginx.conf").write_text(text)
    return folder / "nginx.conf"


def secret_of(config: Path) -> str:
    return config.read_text().partition(f'{SECRET} "')[2].partition('"')[0]


@pytest.fixture(scope="module")
def team(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory, helm: None) -> Iterator[TeamPage]:
    """The page with the rights of the chart, behind nginx."""
    folder = tmp_path_factory.mktemp("team")
    sets = ("ui.enabled=true", "ui.proxyFrom[0].podSelector.matchLabels.app=proxy")
    found = Release().documents(None, "crds.install=false", *sets)
    rights = [item for item in found if item["metadata"]["name"] == "trainshed-ui" and "Role" in item["kind"]]
    Kubectl(str(server.kubeconfig))("apply", "-f", "-", text=yaml.safe_dump_all(rights))
    port, probes, proxy = (free_port() for _ in range(3))
    config = proxy_config(folder, proxy, f"127.0.0.1:{port}")
    (folder / "secret").write_text(secret_of(config))
    (flags,) = (item["spec"]["template"]["spec"]["containers"][0]["args"] for item in found if _is_page(item))
    page, nginx = Process("ui-server", folder), Process("nginx", folder)
    more = (f"--proxy-secret-file={folder}/secret", f"--base-path={BASE}", "--frame-ancestor='self'")
    addresses = (f"--bind-address=127.0.0.1:{port}", f"--health-probe-bind-address=127.0.0.1:{probes}")
    kubeconfig = f"--kubeconfig={server.kubeconfig_for(ACCOUNT)}"
    page.start([sys.executable, "-m", "trainshed", *flags, *more, *addresses, kubeconfig], tied=True)
    own = f"daemon off; pid {folder}/nginx.id; {'user root;' if os.geteuid() == 0 else ''}"
    program = debian.unpacked("nginx", "usr/sbin/nginx")
    nginx.start([program, "-p", folder, "-c", config, "-g", own, "-e", f"{folder}/errors"], tied=True)
    try:
        eventually(lambda: _answers(f"http://127.0.0.1:{probes}/readyz") and _answers(f"http://127.0.0.1:{proxy}/"), 60)
        yield TeamPage(f"http://127.0.0.1:{proxy}", f"http://127.0.0.1:{port}", secret_of(config))
    finally:
        nginx.stop()
        page.stop()
    assert "Traceback" not in page.log.read_text()


def _is_page(item: dict) -> bool:
    return (item["kind"], item["metadata"]["name"]) == ("Deployment", "trainshed-ui")


def _answers(url: str) -> bool:
    try:
        return HTTP.request("GET", url).status < 500
    except urllib3.exceptions.HTTPError:
        return False


@pytest.fixture
def namespaces(server: ControlPlane, user: UserClient) -> tuple[UserClient, UserClient]:
    """The namespaces of Alice and of Bob: a job in each, and the binding of the page of the docs."""
    other = UserClient.somewhere(server.kubeconfig)
    Kubectl(str(server.kubeconfig))("apply", "-f", str(how_to.ROOT / "manifests/base/aggregated-roles.yaml"))
    binding = next(item for body in how_to.code(PAGE, "yaml") for item in yaml.safe_load_all(body) if _binds(item))
    for name, own in ((ALICE, user), (BOB, other)):
        binding["metadata"]["namespace"], binding["subjects"][0]["name"] = own.namespace, name
        Kubectl(str(server.kubeconfig))("apply", "-f", "-", text=yaml.safe_dump(binding))
        own.create(pytorchjob(f"of-{name.partition('@')[0]}", Master=1))
    return user, other


def _binds(item: dict) -> bool:
    return item.get("kind") == "RoleBinding"


def test_each_user_sees_what_their_rights_allow_and_no_more(team: TeamPage, namespaces):
    of_alice, of_bob = (own.namespace for own in namespaces)
    eventually(lambda: "of-alice" in team.shown(f"{BASE}?ns={of_alice}", ALICE), 30)
    eventually(lambda: "of-bob" in team.shown(f"{BASE}namespaces/{of_bob}", BOB), 30)
    for user, namespace, job in ((ALICE, of_bob, "of-bob"), (BOB, of_alice, "of-alice")):
        page = team.shown(f"{BASE}?ns={namespace}", user)
        assert job not in page
        assert "Not shown" in page
        assert team.asked(f"{BASE}jobs/{namespace}/pytorchjob/{job}", user).status == 404
    for user in (ALICE, BOB):
        everything = team.shown(BASE, user)
        assert "of-alice" not in everything
        assert "of-bob" not in everything


def test_a_name_that_the_browser_sends_has_no_effect(team: TeamPage, namespaces):
    of_bob = namespaces[1].namespace
    eventually(lambda: "of-bob" in team.shown(f"{BASE}?ns={of_bob}", BOB), 30)
    forged = {"X_Forwarded_User": BOB, "X_Forwarded_Groups": "system:masters", "Impersonate_User": BOB}
    assert "of-bob" not in team.shown(f"{BASE}?ns={of_bob}", ALICE, **forged)


def test_nobody_is_answered_past_the_proxy(team: TeamPage, namespaces):
    path = f"{BASE}?ns={namespaces[0].namespace}"
    assert team.asked(path, "mallory").status == 401
    assert team.past_the_proxy(path, (USER, ALICE)) == 403
    assert team.past_the_proxy(f"{BASE}static/page.js", (USER, ALICE), (SECRET, "wrong")) == 403
    true = (SECRET, team.secret)
    assert team.past_the_proxy(path, (USER, ALICE), true) == 200
    assert team.past_the_proxy(path, true) == 401
    assert team.past_the_proxy(path, (USER, ALICE), (USER, BOB), true) == 403
    assert team.past_the_proxy(path, (USER, "system:admin"), true) == 403
    assert team.past_the_proxy(path, (USER, ALICE), true, method="POST") == 405
    assert team.past_the_proxy(path, (USER, ALICE), true, ("Sec-Fetch-Site", "cross-site")) == 403


def test_what_was_read_is_forgotten_with_the_right_to_it(team: TeamPage, namespaces, server: ControlPlane):
    own = namespaces[0]
    path = f"{BASE}?ns={own.namespace}"
    eventually(lambda: "of-alice" in team.shown(path, ALICE), 30)
    own.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{own.namespace}/rolebindings/jobs")
    server.kill_apiserver()  # ends the watches, which would else be renewed within 75 s
    server.start_apiserver()
    eventually(lambda: "of-alice" not in team.shown(path, ALICE), 60, every=0.5)
    assert "Not shown" in team.shown(path, ALICE)


def test_the_service_account_may_act_as_users_for_reads_alone(server: ControlPlane, team: TeamPage, namespaces):
    own = namespaces[0]
    account = Kubectl(str(server.kubeconfig_for(ACCOUNT)))
    jobs = f"/apis/kubeflow.org/v1/namespaces/{own.namespace}/pytorchjobs"
    assert "of-alice" in account("get", f"--raw={jobs}", f"--as={ALICE}")
    secrets = f"/api/v1/namespaces/{own.namespace}/secrets"
    for words in (("delete", f"--raw={jobs}/of-alice"), ("get", f"--raw={secrets}")):
        with pytest.raises(AssertionError, match="cannot impersonate"):
            account(*words, "--as=admin", "--as-group=system:masters")
    with pytest.raises(AssertionError, match="cannot list resource"):
        account("get", f"--raw={jobs}")


def test_it_lives_below_a_path_and_in_a_frame_of_the_dashboard(team: TeamPage, namespaces, browser: Browser):
    own = namespaces[0]
    eventually(lambda: "of-alice" in team.shown(f"{BASE}?ns={own.namespace}", ALICE), 30)
    context = browser.new_context(http_credentials={"username": ALICE, "password": ALICE})
    visitor = Visitor(context)
    address = f"{team.proxy}{BASE}namespaces/{own.namespace}"
    page = visitor.open(address)
    expect(page.locator("#link")).to_have_text("live")
    own.create(pytorchjob("second", Master=1))
    page.get_by_role("link", name="second", exact=True).click()
    expect(page).to_have_url(f"{team.proxy}{BASE}jobs/{own.namespace}/pytorchjob/second")
    assert framed(context, f"{team.proxy}/dashboard", address) == ["second", "of-alice"]
    assert framed(context, "http://dashboard.test/", address) == []
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "team.png")
    assert visitor.complaints == []
    context.close()


def framed(context: BrowserContext, dashboard: str, address: str) -> list[str]:
    """Return the jobs that are seen in a frame of a dashboard."""
    body = f'<iframe src="{address}"></iframe>'
    context.route(dashboard, lambda route: route.fulfill(body=body, content_type="text/html"))
    page = context.new_page()
    page.goto(dashboard)
    links = page.frames[1].locator("tr.job .job a")
    if dashboard.startswith(address[:16]):
        expect(links).to_have_count(2)
    return links.all_text_contents()
