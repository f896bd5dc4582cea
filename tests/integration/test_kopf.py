"""The operator with a kopf that crashes, with one that has nothing to do, and with one that alone sees the jobs."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

from support import FaultProxy, Operators
from support.api_request import Request, refusal
from support.fake_kubelet import FakeKubelet
from support.fault_proxy import Route
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


def test_kopfs_watch_stands_in_for_a_silent_watch_of_jobs(
    second_server: ControlPlane, second_user: UserClient, tmp_path: Path, operators: Operators
):
    user, watches, is_frozen, took = second_user, [], [], {}

    async def frozen(request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            while is_frozen and request.plural == "tfjobs":
                await asyncio.sleep(1)
            yield line

    def seconds(name: str, change, question) -> None:
        began = time.monotonic()
        change()
        eventually(question, 20, every=0.02)
        took[name] = time.monotonic() - began

    def patch(policy: dict) -> None:
        user.patch_job("TFJob", "a", {"spec": {"runPolicy": policy}})

    with FaultProxy.start(second_server.kubeconfig) as proxy, FakeKubelet(user):
        route = proxy.routes[user.namespace] = Route(on_watch=frozen)
        route.instead = lambda request: watches.append(request) if request.by_kopf and request.watches else None
        operator = operators.begin(proxy.kubeconfig(tmp_path), "--no-leader-elect", f"--namespace={user.namespace}")
        runs(user, "a")
        eventually(lambda: any(request.plural == "tfjobs" for request in watches), 20)
        is_frozen.append(True)
        seconds("new", lambda: user.create(tfjob("b", Worker=2)), lambda: len(user.pods("b")) == 2)
        seconds("suspended", lambda: patch({"suspend": True}), lambda: user.state("TFJob", "a") == "Suspended")
        seconds("resumed", lambda: patch({"suspend": False}), lambda: len(user.pods("a")) == 2)
        before = {pod["metadata"]["uid"] for pod in user.pods("b")}
        user.delete_job("TFJob", "b")
        for name in ("b-worker-0", "b-worker-1"):
            user.delete("pods", name, 0)
        seconds(
            "again",
            lambda: user.create(tfjob("b", Worker=2)),
            lambda: len({pod["metadata"]["uid"] for pod in user.pods("b")} - before) == 2,
        )
        is_frozen.clear()
        assert operator.stop() == 0
    print("seconds with a silent watch:", took)
    assert max(took.values()) <= 5, "its own watch is silent for a minute or more"
