"""Faults on a real API server: nothing is lost or done twice, and the status has the reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support import FaultProxy, Operator
from support.api_request import Answer, Request
from support.fake_kubelet import FakeKubelet
from support.fault_proxy import LOST, Forward
from support.jobs import pytorchjob, tfjob
from support.planes import ready_control_plane
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

PS_JOB = {"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}
PS_PODS = ["ps-chief-0", "ps-evaluator-0", "ps-ps-0", "ps-ps-1", "ps-worker-0", "ps-worker-1"]


def names(objects: list[dict]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in objects)


@pytest.mark.usefixtures("shared_operator")
class TestWhileTheOperatorLives:
    @pytest.mark.fault("B4", "J1")
    def test_a_foreign_pod_with_a_needed_name_is_reported_and_left_alone(self, user: UserClient, kubelet: FakeKubelet):
        container = {"name": "c", "image": "python:3.11-slim"}
        user.make("pods", {"metadata": {"name": "clash-worker-0"}, "spec": {"containers": [container]}})
        uid = user.pod("clash-worker-0")["metadata"]["uid"]
        user.create(tfjob("clash", Worker=1))
        condition = eventually(lambda: user.conditions("TFJob", "clash").get("Blocked"), 5)
        assert condition["reason"] == "NameConflict"
        assert "clash-worker-0 already exists and is not controlled by this job" in condition["message"]
        assert user.pod("clash-worker-0")["metadata"]["uid"] == uid
        user.delete("pods", "clash-worker-0", grace=0)
        eventually(lambda: user.state("TFJob", "clash") == "Running", 40)
        assert "Blocked" not in user.conditions("TFJob", "clash")

    @pytest.mark.fault("B11")
    def test_an_exceeded_quota_is_reported_and_the_job_continues_once_it_is_raised(
        self, user: UserClient, kubelet: FakeKubelet
    ):
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "1"}},
        }
        user.make("resourcequotas", quota)
        path = f"/api/v1/namespaces/{user.namespace}/resourcequotas/few"
        eventually(lambda: "hard" in user.call("GET", path).get("status", {}))
        user.create(pytorchjob("tight", Master=1, Worker=1))
        condition = eventually(lambda: user.conditions("PyTorchJob", "tight").get("Blocked"), 5)
        assert condition["reason"] == "QuotaExceeded"
        assert "exceeded quota: few" in condition["message"]
        user.call("DELETE", path)
        eventually(lambda: len(user.pods()) == 2, 35)
        eventually(lambda: "Blocked" not in user.conditions("PyTorchJob", "tight"))

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

    @pytest.mark.fault("H1")
    def test_a_worker_deleted_by_hand_is_replaced_and_not_counted(self, user: UserClient, kubelet: FakeKubelet):
        user.create(tfjob("ps", policy={"backoffLimit": 0}, **PS_JOB))
        eventually(lambda: user.state("TFJob", "ps") == "Running")
        eventually(lambda: user.job("TFJob", "ps")["status"]["replicaStatuses"]["Worker"].get("active") == 2)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}
        user.delete("pods", "ps-worker-1")
        eventually(
            lambda: (
                (user.pod("ps-worker-1") or {}).get("metadata", {}).get("uid", before["ps-worker-1"])
                != before["ps-worker-1"]
            )
        )
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}
        assert {name for name in after if after[name] != before[name]} == {"ps-worker-1"}
        eventually(lambda: user.state("TFJob", "ps") == "Running")
        assert not user.job("TFJob", "ps")["status"].get("restarts")

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


@pytest.mark.fault("A1", "A2")
def test_the_operator_may_be_killed_at_any_of_its_writes(tmp_path: Path):
    """The parameter-server job, once for each write: killed there, started again, the same end.

    Every other one is struck before it is sent, the others after they are done; `make chaos` does both to each.
    """
    writes: list[Request] = []
    at = 0
    with ready_control_plane(tmp_path / "plane") as plane:  # where no other operator helps
        while at <= len(writes):
            at += 1
            user = UserClient(plane.kubeconfig, f"kill-{at}")
            user.make_namespace()
            writes = killed_once(plane, user, tmp_path / str(at), at, before=at % 2 == 0)
    assert at > 20, f"six pods, six Services, two states and ten deletions are more writes than {[*map(str, writes)]}"


def killed_once(plane: ControlPlane, user: UserClient, folder: Path, at: int, *, before: bool) -> list[Request]:
    """Run the job with a kill at this write; the writes that were made in all."""
    folder.mkdir()
    struck: list[bool] = []

    async def kill(request: Request, forward: Forward) -> Answer:
        if request.number != at:
            return await forward()
        if not before:
            await forward()
        operator.kill()
        struck.append(True)
        return LOST

    with FaultProxy.start(plane.kubeconfig) as proxy, FakeKubelet(user) as kubelet:
        flags = (f"--namespace={user.namespace}", "--no-leader-elect")
        operator = Operator(proxy.kubeconfig(folder), folder, *flags).start()
        proxy.default.on_write = kill
        user.create(tfjob("ps", policy={"cleanPodPolicy": "Running"}, **PS_JOB))
        eventually(lambda: struck or user.state("TFJob", "ps") == "Running", 20)
        revive(operator)
        eventually(lambda: user.state("TFJob", "ps") == "Running", 20)
        eventually(lambda: names(user.pods()) == PS_PODS)
        kubelet.end("ps-chief-0", 0)
        eventually(lambda: struck or names(user.pods()) == ["ps-chief-0"], 20)
        revive(operator)
        eventually(lambda: user.state("TFJob", "ps") == "Succeeded", 20)
        eventually(lambda: names(user.pods()) == ["ps-chief-0"], 20)
        eventually(lambda: struck or names(user.core("services")) == ["ps-chief-0"])
        revive(operator)
        eventually(lambda: names(user.core("services")) == ["ps-chief-0"], 20)
        time.sleep(0.3)
        revive(operator)
        assert sorted(kubelet.created) == PS_PODS, "a pod was made twice"
        assert list(user.conditions("TFJob", "ps"))[-1] == "Succeeded"
        if operator.alive:
            operator.stop()
        assert operator.complaints() == []
    writes = proxy.default.writes
    assert bool(struck) == (len(writes) >= at), [*map(str, writes)]
    return writes


def revive(operator: Operator) -> None:
    """Start the operator again if it was killed."""
    if not operator.alive:
        operator.start()
