"""Bad luck on a real API server: nothing is lost, nothing is done twice, and the status says why."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from support import FaultProxy, Operator
from support.api_request import Answer, Request
from support.fake_kubelet import Stage
from support.fault_proxy import LOST, Forward
from support.jobs import pytorchjob, tfjob
from support.planes import ready_control_plane
from support.user_client import Hand, eventually
from testbed.control_plane import ControlPlane

PS_JOB = {"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}
PS_PODS = ["ps-chief-0", "ps-evaluator-0", "ps-ps-0", "ps-ps-1", "ps-worker-0", "ps-worker-1"]


def names(objects: list[dict]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in objects)


@pytest.mark.usefixtures("shared_operator")
class TestWhileTheOperatorLives:
    def test_a_strangers_pod_with_a_needed_name_is_reported_and_left_alone(self, hand: Hand, stage: Stage):
        container = {"name": "c", "image": "python:3.11-slim"}
        hand.make("pods", {"metadata": {"name": "clash-worker-0"}, "spec": {"containers": [container]}})
        uid = hand.pod("clash-worker-0")["metadata"]["uid"]
        hand.create(tfjob("clash", Worker=1))
        condition = eventually(lambda: hand.conditions("TFJob", "clash").get("Blocked"), 5)
        assert condition["reason"] == "NameConflict"
        assert "clash-worker-0 already exists and is not controlled by this job" in condition["message"]
        assert hand.pod("clash-worker-0")["metadata"]["uid"] == uid
        hand.delete("pods", "clash-worker-0", grace=0)
        eventually(lambda: hand.state("TFJob", "clash") == "Running", 40)
        assert "Blocked" not in hand.conditions("TFJob", "clash")

    def test_a_quota_is_named_in_the_status_and_the_job_goes_on_when_it_is_lifted(self, hand: Hand, stage: Stage):
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "1"}},
        }
        hand.make("resourcequotas", quota)
        path = f"/api/v1/namespaces/{hand.namespace}/resourcequotas/few"
        eventually(lambda: "hard" in hand.call("GET", path).get("status", {}))
        hand.create(pytorchjob("tight", Master=1, Worker=1))
        condition = eventually(lambda: hand.conditions("PyTorchJob", "tight").get("Blocked"), 5)
        assert condition["reason"] == "QuotaExceeded"
        assert "exceeded quota: few" in condition["message"]
        hand.call("DELETE", path)
        eventually(lambda: len(hand.pods()) == 2, 35)
        eventually(lambda: "Blocked" not in hand.conditions("PyTorchJob", "tight"))

    def test_a_template_that_only_the_pods_creation_reveals_as_invalid_is_reported(self, hand: Hand, stage: Stage):
        job = tfjob("bad", Worker=3)
        job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"] = " space "
        hand.create(job)
        condition = eventually(lambda: hand.conditions("TFJob", "bad").get("Blocked"), 5)
        assert condition["reason"] == "Invalid"
        assert "image" in condition["message"]
        time.sleep(2)
        assert not hand.pods()
        failed = [message for _, reason, message in hand.events("bad") if reason == "FailedCreatePod"]
        assert 1 <= len(failed) <= 3

    def test_a_job_recreated_while_its_old_pods_go_gets_pods_of_its_own(self, hand: Hand, stage: Stage):
        hand.create(tfjob("twice", Worker=2))
        eventually(lambda: hand.state("TFJob", "twice") == "Running")
        old = {pod["metadata"]["uid"] for pod in hand.pods()}
        hand.delete_job("TFJob", "twice")
        hand.create(tfjob("twice", Worker=2))
        owner = hand.job("TFJob", "twice")["metadata"]["uid"]

        def renewed() -> bool:
            pods = hand.pods()
            owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
            return names(pods) == ["twice-worker-0", "twice-worker-1"] and owners == {owner}

        eventually(renewed, 40)
        assert not old & {pod["metadata"]["uid"] for pod in hand.pods()}
        eventually(lambda: hand.state("TFJob", "twice") == "Running")

    def test_a_worker_deleted_by_hand_is_replaced_and_not_counted(self, hand: Hand, stage: Stage):
        hand.create(tfjob("ps", policy={"backoffLimit": 0}, **PS_JOB))
        eventually(lambda: hand.state("TFJob", "ps") == "Running")
        eventually(lambda: hand.job("TFJob", "ps")["status"]["replicaStatuses"]["Worker"].get("active") == 2)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in hand.pods()}
        hand.delete("pods", "ps-worker-1")
        eventually(
            lambda: (
                (hand.pod("ps-worker-1") or {}).get("metadata", {}).get("uid", before["ps-worker-1"])
                != before["ps-worker-1"]
            )
        )
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in hand.pods()}
        assert {name for name in after if after[name] != before[name]} == {"ps-worker-1"}
        eventually(lambda: hand.state("TFJob", "ps") == "Running")
        assert not hand.job("TFJob", "ps")["status"].get("restarts")

    def test_success_and_failure_in_one_look_give_one_verdict(self, hand: Hand):
        with Stage(hand, lambda _name: "") as stage:
            hand.create(tfjob("both", Chief=1, Worker=1))
            eventually(lambda: len(hand.pods()) == 2)
            for name in ("both-chief-0", "both-worker-0"):
                hand.bind(name, "stage-0")
            stage.end("both-worker-0", 0)
            stage.end("both-chief-0", 0)
            eventually(lambda: "Succeeded" in hand.conditions("TFJob", "both"))
            stage.end("both-worker-0", 1)
            time.sleep(1)
            assert "Failed" not in hand.conditions("TFJob", "both")

    def test_ten_suspensions_in_two_seconds_end_as_the_last_one_says(self, hand: Hand, stage: Stage):
        hand.create(tfjob("flip", Worker=2))
        eventually(lambda: hand.state("TFJob", "flip") == "Running")
        began = time.monotonic()
        for turn in range(20):
            hand.patch_job("TFJob", "flip", {"spec": {"runPolicy": {"suspend": turn % 2 == 0}}})
            time.sleep(0.1)
        took = max(2.0, time.monotonic() - began)
        eventually(lambda: hand.state("TFJob", "flip") == "Running", 20)
        assert names(hand.pods()) == ["flip-worker-0", "flip-worker-1"]
        assert len(stage.created) <= 2 * (2 + took), "more than those at first, two pods a second, and those at last"


def test_the_api_server_may_be_away_for_half_a_minute(tmp_path: Path):
    # A control plane of its own: the other tests need theirs.
    with ready_control_plane(tmp_path / "plane") as plane:
        hand = Hand(plane.kubeconfig, "outage")
        hand.make_namespace()
        operator = Operator(plane.kubeconfig, tmp_path, "--no-leader-elect").start()
        with Stage(hand) as stage:
            hand.create(tfjob("before", Chief=1, Worker=2))
            eventually(lambda: hand.state("TFJob", "before") == "Running")
            plane.stop_apiserver()
            time.sleep(30)
            assert operator.alive
            plane.start_apiserver()
            stage.end("before-chief-0", 0)
            eventually(lambda: hand.state("TFJob", "before") == "Succeeded", 20)
            hand.create(tfjob("after", Worker=1))
            eventually(lambda: hand.state("TFJob", "after") == "Running", 20)
            assert len(stage.created) == 4
        assert operator.stop() == 0
        assert operator.complaints() == []


def test_the_operator_may_be_killed_at_any_of_its_writes(tmp_path: Path):
    """The parameter-server job, once for each write: killed there, started again, the same end.

    Every other one is struck before it is sent, the others after they are done; `make chaos` does both to each.
    """
    writes: list[Request] = []
    at = 0
    with ready_control_plane(tmp_path / "plane") as plane:  # where no other operator lends a hand
        while at <= len(writes):
            at += 1
            hand = Hand(plane.kubeconfig, f"kill-{at}")
            hand.make_namespace()
            writes = killed_once(plane, hand, tmp_path / str(at), at, before=at % 2 == 0)
    assert at > 20, f"six pods, six Services, two states and ten deletions are more writes than {[*map(str, writes)]}"


def killed_once(plane: ControlPlane, hand: Hand, folder: Path, at: int, *, before: bool) -> list[Request]:
    """Run the job with a kill at this write; the writes that were made in all."""
    folder.mkdir()
    struck: list[bool] = []

    async def kill(request: Request, forward: Forward) -> Answer:
        if request.number != at:
            return await forward()
        if not before:
            await forward()
        operator.signal(signal.SIGKILL)
        struck.append(True)
        return LOST

    with FaultProxy.start(plane.kubeconfig) as proxy, Stage(hand) as stage:
        flags = (f"--namespace={hand.namespace}", "--no-leader-elect")
        operator = Operator(proxy.kubeconfig(folder), folder, *flags).start()
        proxy.default.on_write = kill
        hand.create(tfjob("ps", policy={"cleanPodPolicy": "Running"}, **PS_JOB))
        eventually(lambda: struck or hand.state("TFJob", "ps") == "Running", 20)
        revive(operator)
        eventually(lambda: hand.state("TFJob", "ps") == "Running", 20)
        eventually(lambda: names(hand.pods()) == PS_PODS)
        stage.end("ps-chief-0", 0)
        eventually(lambda: struck or names(hand.pods()) == ["ps-chief-0"], 20)
        revive(operator)
        eventually(lambda: hand.state("TFJob", "ps") == "Succeeded", 20)
        eventually(lambda: names(hand.pods()) == ["ps-chief-0"], 20)
        eventually(lambda: struck or names(hand.core("services")) == ["ps-chief-0"])
        revive(operator)
        eventually(lambda: names(hand.core("services")) == ["ps-chief-0"], 20)
        time.sleep(0.3)
        revive(operator)
        assert sorted(stage.created) == PS_PODS, "a pod was made twice"
        assert list(hand.conditions("TFJob", "ps"))[-1] == "Succeeded"
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
