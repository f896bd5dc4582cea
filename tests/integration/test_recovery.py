"""Faults on a real API server: nothing is lost or done twice, and the status has the reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support import Operator
from support.fake_kubelet import FakeKubelet
from support.jobs import tfjob
from support.planes import ready_control_plane
from support.pods import names
from support.user_client import UserClient, eventually


@pytest.mark.usefixtures("shared_operator")
class TestWhileTheOperatorLives:
    @pytest.mark.fault("B13")
    def test_a_template_that_is_only_refused_at_pod_creation_is_reported(self, user: UserClient, kubelet: FakeKubelet):
        job = tfjob("bad", Worker=3)
        job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"] = " space "
        user.create(job)
        condition = eventually(lambda: user.conditions("TFJob", "bad").get("Blocked"), 5)
        assert condition["reason"] == "Invalid"
        assert "image" in condition["message"]
        time.sleep(2)
        assert not user.pods()
        failed = [message for _, reason, message in user.events("bad") if reason == "FailedCreatePod"]
        assert 1 <= len(failed) <= 3

    @pytest.mark.fault("I2")
    def test_a_recreated_job_waits_for_the_old_pods_and_gets_its_own(self, user: UserClient, kubelet: FakeKubelet):
        user.create(tfjob("twice", Worker=2))
        eventually(lambda: user.state("TFJob", "twice") == "Running")
        old = {pod["metadata"]["uid"] for pod in user.pods()}
        user.delete_job("TFJob", "twice")
        user.create(tfjob("twice", Worker=2))
        owner = user.job("TFJob", "twice")["metadata"]["uid"]

        def renewed() -> bool:
            pods = user.pods()
            owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
            return names(pods) == ["twice-worker-0", "twice-worker-1"] and owners == {owner}

        eventually(renewed, 40)
        assert not old & {pod["metadata"]["uid"] for pod in user.pods()}
        eventually(lambda: user.state("TFJob", "twice") == "Running")

    @pytest.mark.fault("H8")
    def test_success_and_failure_in_one_reconcile_give_one_terminal_condition(self, user: UserClient):
        with FakeKubelet(user, lambda _name: "") as kubelet:
            user.create(tfjob("both", Chief=1, Worker=1))
            eventually(lambda: len(user.pods()) == 2)
            for name in ("both-chief-0", "both-worker-0"):
                user.bind(name, "node-0")
            kubelet.end("both-worker-0", 0)
            kubelet.end("both-chief-0", 0)
            eventually(lambda: "Succeeded" in user.conditions("TFJob", "both"))
            kubelet.end("both-worker-0", 1)
            time.sleep(1)
            assert "Failed" not in user.conditions("TFJob", "both")

    @pytest.mark.fault("I5")
    def test_ten_suspends_in_two_seconds_end_in_the_last_state(self, user: UserClient, kubelet: FakeKubelet):
        user.create(tfjob("flip", Worker=2))
        eventually(lambda: user.state("TFJob", "flip") == "Running")
        began = time.monotonic()
        for turn in range(20):
            user.patch_job("TFJob", "flip", {"spec": {"runPolicy": {"suspend": turn % 2 == 0}}})
            time.sleep(0.1)
        took = max(2.0, time.monotonic() - began)
        eventually(lambda: user.state("TFJob", "flip") == "Running", 20)
        assert names(user.pods()) == ["flip-worker-0", "flip-worker-1"]
        assert len(kubelet.created) <= 2 * (2 + took), "more than those at first, two pods a second, and those at last"


@pytest.mark.fault("B16")
def test_the_api_server_may_be_unavailable_for_half_a_minute(tmp_path: Path):
    # A control plane of its own: the other tests need theirs.
    with ready_control_plane(tmp_path / "plane") as plane:
        user = UserClient(plane.kubeconfig, "outage")
        user.make_namespace()
        operator = Operator(plane.kubeconfig, tmp_path, "--no-leader-elect").start()
        with FakeKubelet(user) as kubelet:
            user.create(tfjob("before", Chief=1, Worker=2))
            eventually(lambda: user.state("TFJob", "before") == "Running")
            plane.stop_apiserver()
            time.sleep(30)
            assert operator.alive
            plane.start_apiserver()
            kubelet.end("before-chief-0", 0)
            eventually(lambda: user.state("TFJob", "before") == "Succeeded", 20)
            user.create(tfjob("after", Worker=1))
            eventually(lambda: user.state("TFJob", "after") == "Running", 20)
            assert len(kubelet.created) == 4
        assert operator.stop() == 0
        assert operator.complaints() == []
