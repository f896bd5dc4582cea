"""The operator with a kopf that crashes, and with one that has nothing to do."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

from support import FaultProxy, Operators
from support.api_request import refusal
from support.fake_kubelet import FakeKubelet
from support.jobs import tfjob
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

NOT_FOUND = refusal(404, "NotFound")


def runs(user: UserClient, name: str, within: float = 20) -> None:
    """A new job runs in time."""
    user.create(tfjob(name, Worker=2))
    eventually(lambda: user.state("TFJob", name) == "Running", within)


def test_kopf_is_restarted_after_each_crash(
    second_server: ControlPlane, second_user: UserClient, tmp_path: Path, operators: Operators
):
    with FaultProxy.start(second_server.kubeconfig) as proxy, FakeKubelet(second_user):
        proxy.default.instead = lambda request: NOT_FOUND if request.watches and request.by_kopf else None
        operator = operators.begin(
            proxy.kubeconfig(tmp_path), "--no-leader-elect", f"--namespace={second_user.namespace}"
        )
        began = time.monotonic()
        for number in itertools.count():
            runs(second_user, f"job-{number}")
            time.sleep(0.5)
            if len(re.findall("WARNING kopf .*; restarting", operator.log.read_text())) >= 2:
                break
            assert time.monotonic() - began < 60, operator.log.read_text()[-2000:]
        assert operator.alive
        began = time.monotonic()
        assert operator.stop() == 0
        assert time.monotonic() - began < 8
        assert operator.complaints() == []


def test_kopf_runs_without_a_job_and_with_one(
    second_server: ControlPlane, second_user: UserClient, operators: Operators
):
    with FakeKubelet(second_user):
        operator = operators.begin(
            second_server.kubeconfig, "--no-leader-elect", f"--namespace={second_user.namespace}"
        )
        time.sleep(3)
        runs(second_user, "one")
    assert "kopf" not in operator.log.read_text()
