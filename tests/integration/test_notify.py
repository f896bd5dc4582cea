"""A webhook is sent about a job once, on a real API server, although the operator is killed again and again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import FakeKubelet, UserClient
from support.inbox import inbox
from support.jobs import pytorchjob
from support.tcp_proxy import TcpProxy
from support.user_client import eventually
from testbed.control_plane import ControlPlane


@pytest.fixture
def received() -> Iterator[tuple[str, list[dict]]]:
    """The URL of a webhook on this machine, and what it has got."""
    with inbox() as found:
        yield found


@pytest.mark.usefixtures("shared_operator")
def test_a_watch_sends_each_change_once_although_its_connection_breaks(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet, received: tuple[str, list[dict]], tmp_path: Path
):
    (url, got), output = received, tmp_path / "output"
    service = url.replace("http://", "json://")
    words = [sys.executable, "-m", "trainshed", "get", "--watch", "-n", user.namespace]
    words += ["--notify", service, "--notify", "json://127.0.0.1:1/hidden"]
    user.create(pytorchjob("earlier", Master=1))
    eventually(lambda: user.state("PyTorchJob", "earlier") == "Running")
    with TcpProxy.start(urlsplit(server.url).port) as line, output.open("w") as file:
        config = str(line.kubeconfig(server.kubeconfig, tmp_path))
        process = subprocess.Popen([*words, "--kubeconfig", config], stdout=file, stderr=file)
        try:
            eventually(lambda: "earlier" in output.read_text(), 60)
            user.create(pytorchjob("mnist", restart="Never", Master=1))
            eventually(lambda: len(got) == 1, 60)
            line.cut()
            kubelet.end("mnist-master-0", 3)
            eventually(lambda: len(got) == 2, 60)
            line.cut()
            user.create(pytorchjob("later", Master=1))
            eventually(lambda: len(got) == 3, 60)
            eventually(lambda: output.read_text().count("service 2 (json)") == 3, 60)
            assert process.poll() is None, "a service that is not there does not end the watch"
        finally:
            process.kill()
            process.wait()
    kinds = [("Running", "mnist"), ("Failed", "mnist"), ("Running", "later")]
    assert [sent["title"] for sent in got] == [f"{state}: PyTorchJob {user.namespace}/{name}" for state, name in kinds]
    assert "exited with code 3" in got[1]["message"]
    assert not {"secret", "hidden", "Traceback"} & set(re.findall(r"\w+", output.read_text())), output.read_text()


def warnings(user: UserClient) -> list[str]:
    """The reasons of the Events about messages."""
    return [event["reason"] for event in user.core("events") if "Notify" in event["reason"]]


def test_a_webhook_gets_each_message_once_although_operators_are_killed(
    second_server: ControlPlane, second_user: UserClient, received: tuple[str, list[dict]], operators, tmp_path: Path
):
    user, (url, got) = second_user, received
    (tmp_path / "team").write_text(url)
    flags = ("--no-leader-elect", f"--namespace={user.namespace}", f"--notify-webhooks={tmp_path}")
    begin = lambda *more: operators.begin(second_server.kubeconfig, *flags, *more)  # noqa: E731 - short
    operator = begin("--notify-allow=127.0.0.0/8")
    names = {"notified": "team", "lost": "missing", "plain": ""}
    with FakeKubelet(user) as kubelet:
        for name, webhook in names.items():
            job = pytorchjob(name, restart="Never", Master=1, Worker=1)
            asks = {"trainshed.dev/notify": webhook} if webhook else {}
            user.create(job | {"metadata": {"name": name, "annotations": asks}})
        eventually(lambda: got and warnings(user), 60)
        assert user.job("PyTorchJob", "notified")["status"]["notified"]["id"] == got[0]["id"]
        operator.kill()
        for name in names:
            kubelet.end(f"{name}-worker-0", 3)
        operator = begin("--notify-allow=127.0.0.0/8")
        eventually(lambda: len(got) == 2, 60)
        operator.kill()
        operator = begin("--notify-allow=127.0.0.0/8")
        again = pytorchjob("last", restart="Never", Master=1)
        user.create(again | {"metadata": {"name": "last", "annotations": {"trainshed.dev/notify": "team"}}})
        eventually(lambda: len(got) == 3, 60)
    assert Counter((message["name"], message["state"]) for message in got) == {
        ("notified", "Running"): 1,
        ("notified", "Failed"): 1,
        ("last", "Running"): 1,
    }
    failed = next(message for message in got if message["state"] == "Failed")
    assert "exited with code 3" in json.dumps(failed["story"])
    assert warnings(user) == ["NotifyUnknown"]
    assert "secret" not in json.dumps([user.core("events"), user.job("PyTorchJob", "notified")])


def test_a_webhook_on_a_private_address_gets_nothing_unless_it_is_allowed(
    second_server: ControlPlane, second_user: UserClient, received: tuple[str, list[dict]], operators, tmp_path: Path
):
    user, (url, got) = second_user, received
    (tmp_path / "team").write_text(url)
    operators.begin(
        second_server.kubeconfig, "--no-leader-elect", f"--namespace={user.namespace}", f"--notify-webhooks={tmp_path}"
    )
    with FakeKubelet(user):
        job = pytorchjob("notified", restart="Never", Master=1)
        user.create(job | {"metadata": {"name": "notified", "annotations": {"trainshed.dev/notify": "team"}}})
        eventually(lambda: [event for event in user.core("events") if event["reason"] == "NotifyFailed"], 60)
    assert got == []
