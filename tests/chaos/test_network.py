"""Slow and broken connections, busy servers, and large requests to the operator's endpoints."""

from __future__ import annotations

import http.client
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from support import FakeKubelet, Operator, UserClient
from support.audit_log import Request, requests
from support.jobs import tfjob
from support.process_usage import rss
from support.tcp_proxy import TcpProxy
from support.user_client import eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.apiserver

Begin = Callable[..., Operator]
USER = "trainshed"
MANIFESTS = Path(__file__).parents[2] / "manifests"
#: Seconds there and back.
FAR = 0.2


def port(url: str) -> int:
    return int(url.rpartition(":")[2])


def known(plane: ControlPlane) -> Path:
    """The operator's own kubeconfig."""
    return plane.kubeconfig_for(USER, ("system:masters",))


def runs(user: UserClient, name: str, within: float = 30) -> None:
    eventually(lambda: user.state("TFJob", name) == "Running", within)


@pytest.mark.fault("E3")
def test_with_a_high_latency_requests_are_concurrent(
    second_server: ControlPlane, second_user: UserClient, begin: Begin, tmp_path: Path
):
    with TcpProxy.start(port(second_server.url), delay=FAR / 2) as line:
        begin(kubeconfig=line.kubeconfig(known(second_server), tmp_path))
        second_user.create(tfjob("far", Worker=100))
        eventually(lambda: len(second_user.pods()) == len(second_user.core("services")) == 100, 60)
        asked = requests(second_server, USER, second_user.namespace)
        made = [request for request in asked if request.what in ("create pods", "create services")]
        assert len(made) == 200
        assert rounds(made) <= 40  # one by one it would be 200


def rounds(made: list[Request]) -> int:
    """Return the maximum number of these requests that can have waited for each other."""
    count, answered = 0, datetime.min.replace(tzinfo=UTC)
    for request in sorted(made, key=lambda request: request.ended):
        if request.began >= answered:
            count, answered = count + 1, request.ended + timedelta(seconds=FAR)
    return count


@pytest.mark.fault("E4")
def test_with_a_low_bandwidth_lists_end_and_the_lease_is_kept(
    second_server: ControlPlane, second_user: UserClient, begin: Begin, tmp_path: Path
):
    """One megabit a second. The text is random because repeated text is compressed."""
    for number in range(60):
        wanted = tfjob(f"full-{number}", policy={"suspend": True}, Worker=1)
        wanted["metadata"]["annotations"] = {"note": secrets.token_hex(4000)}
        second_user.create(wanted)
    with TcpProxy.start(port(second_server.url), rate=125_000) as line, FakeKubelet(second_user):
        operator = begin(
            f"--lease-namespace={second_user.namespace}", kubeconfig=line.kubeconfig(known(second_server), tmp_path)
        )
        began = time.monotonic()
        eventually(lambda: second_user.state("TFJob", "full-59") == "Suspended", 30)
        second_user.create(tfjob("small", Worker=2))
        runs(second_user, "small", 20)
        time.sleep(max(0.0, began + 12 - time.monotonic()))
        assert line.passed >= 400_000
        assert "lost" not in operator.log.read_text()


@pytest.mark.fault("E5")
def test_another_certificate_of_the_server_is_as_good(
    second_server: ControlPlane, second_user: UserClient, begin: Begin
):
    operator = begin()
    with FakeKubelet(second_user):
        second_user.create(tfjob("before", Worker=1))
        runs(second_user, "before")
        first = (second_server.authority.folder / "apiserver.crt").read_text()
        second_server.stop_apiserver()
        (second_server.authority.folder / "apiserver.crt").unlink()
        second_server.authority.sign("apiserver", "kube-apiserver", hosts=("127.0.0.1", "kubernetes.default.svc"))
        assert (second_server.authority.folder / "apiserver.crt").read_text() != first
        second_server.start_apiserver()
        second_user.create(tfjob("after", Worker=1))
        runs(second_user, "after")
    assert operator.complaints() == []


@pytest.mark.fault("E5")
def test_a_name_that_does_not_resolve_is_retried(
    second_server: ControlPlane, second_user: UserClient, begin: Begin, tmp_path: Path
):
    """The operator gets an /etc/hosts of its own, in a mount namespace."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    own = ("unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$0" "$@"')
    if not shutil.which("unshare") or not may_mount(own):
        pytest.skip("a mount namespace takes rights that are not there")
    with TcpProxy.start(port(second_server.url)) as line, FakeKubelet(second_user):
        kubeconfig = line.kubeconfig(known(second_server), tmp_path, "kubernetes.default.svc")
        operator = begin(kubeconfig=kubeconfig, program=(*own, sys.executable, "-m", "trainshed"), wait=False)
        second_user.create(tfjob("named", Worker=1))
        time.sleep(6)
        assert operator.alive
        assert not second_user.pods()
        with hosts.open("a") as file:
            file.write("127.0.0.1 kubernetes.default.svc\n")
        runs(second_user, "named", 30)
        hosts.write_text("127.0.0.1 localhost\n")
        line.cut()
        time.sleep(3)
        hosts.write_text("127.0.0.1 localhost\n127.0.0.1 kubernetes.default.svc\n")
        second_user.create(tfjob("again", Worker=1))
        runs(second_user, "again", 30)
    assert operator.alive


def may_mount(own: tuple[str, ...]) -> bool:
    return subprocess.run([*own, "true"], check=False, capture_output=True, timeout=10).returncode == 0


@contextmanager
def narrow(plane: ControlPlane) -> Iterator[None]:
    """An API server that carries out few requests at a time."""
    plane.stop_apiserver()
    plane.extra_flags = ("--max-requests-inflight=12", "--max-mutating-requests-inflight=8")
    plane.start_apiserver()
    try:
        yield
    finally:
        plane.stop_apiserver()
        plane.extra_flags = ()
        plane.start_apiserver()


@pytest.mark.fault("D10")
def test_a_server_that_others_keep_busy_does_not_cost_the_lease(
    second_server: ControlPlane, second_user: UserClient, begin: Begin
):
    """All are service accounts with every right: members of system:masters would never have to wait."""
    schema = yaml.safe_load((MANIFESTS / "overlays" / "lease-flow-schema" / "resources.yaml").read_text())
    path = f"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{schema['metadata']['name']}?fieldManager=test"
    second_user.call("PATCH", path, schema, "application/apply-patch+yaml")
    accounts = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}
    role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "cluster-admin"}
    binding = {"metadata": {"name": second_user.namespace}, "roleRef": role, "subjects": [accounts]}
    second_user.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    for number in range(40):
        second_user.make("configmaps", {"metadata": {"name": f"big-{number}"}, "data": {"x": "y" * 100_000}})
    with narrow(second_server), FakeKubelet(second_user):
        group = ("system:serviceaccounts",)
        operator = begin(
            f"--lease-namespace={second_user.namespace}",
            kubeconfig=second_server.kubeconfig_for("system:serviceaccount:trainshed-system:trainshed", group),
        )
        second_user.create(tfjob("before", Worker=1))
        runs(second_user, "before")
        other = UserClient(
            second_server.kubeconfig_for("system:serviceaccount:other:other", group), second_user.namespace
        )
        end = time.monotonic() + 12
        with ThreadPoolExecutor(24) as crowd:
            waits = [crowd.submit(ask, other, end) for _ in range(24)]
            time.sleep(2)
            second_user.create(tfjob("amid", Worker=2))
            runs(second_user, "amid", 40)
        longest = max(wait.result() for wait in waits)
        print(f"\nthe crowd waited up to {longest:.1f} s for an answer")
        assert longest >= 0.5
        assert "lost" not in operator.log.read_text()


def ask(user: UserClient, end: float) -> float:
    """Ask for all that is big until then; the longest that an answer took."""
    longest = 0.0
    while time.monotonic() < end:
        began = time.monotonic()
        user.send("GET", "/api/v1/configmaps")
        longest = max(longest, time.monotonic() - began)
    return longest


@pytest.mark.fault("J15")
def test_the_endpoints_survive_bad_requests(server: ControlPlane, operator: Operator):
    before = rss(operator.pid)
    with ExitStack() as stack:
        for number in range(300):
            caller = stack.enter_context(socket.create_connection(("127.0.0.1", operator.health), 5))
            caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" if number % 2 else b"POST / HTTP/1.1\r\nContent-Le")
        for door in (operator.health, operator.metrics):
            with suppress(OSError):  # the server may close the connection during the request
                assert answer(door, "POST", "/healthz", b"x" * 50_000_000) in (404, 405, 413)
            with suppress(OSError):
                assert answer(door, "GET", "/healthz", None, {"X": "y" * 200_000}) in (400, 431)
        for verb in ("PUT", "DELETE", "PATCH"):
            assert answer(operator.metrics, verb, "/metrics") == 405
        assert answer(operator.health, "GET", "/healthz") == answer(operator.metrics, "GET", "/metrics") == 200
        assert answer(operator.health, "GET", "/debug/pprof") == 404
    assert operator.alive
    assert rss(operator.pid) - before <= 40


def answer(door: int, verb: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> int:
    """The HTTP status of one request, to be had within a few seconds."""
    caller = http.client.HTTPConnection("127.0.0.1", door, timeout=5)
    try:
        caller.request(verb, path, body, headers or {})
        return caller.getresponse().status
    finally:
        caller.close()
