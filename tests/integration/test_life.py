"""A job's life on a real API server, from creation to its verdict and what comes after."""

from __future__ import annotations

import pytest

from support.fake_kubelet import Stage
from support.jobs import pytorchjob, tfjob
from support.user_client import Hand, eventually

pytestmark = pytest.mark.usefixtures("shared_operator")

PS_JOB = {"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}


def names(objects: list[dict]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in objects)


def test_a_parameter_server_job_runs_and_succeeds_by_its_chief(hand: Hand, stage: Stage):
    hand.create(tfjob("ps", policy={"cleanPodPolicy": "Running"}, **PS_JOB))
    eventually(lambda: hand.state("TFJob", "ps") == "Running")
    expected = ["ps-chief-0", "ps-evaluator-0", "ps-ps-0", "ps-ps-1", "ps-worker-0", "ps-worker-1"]
    assert names(hand.pods()) == expected
    assert names(hand.core("services")) == expected
    eventually(lambda: hand.job("TFJob", "ps")["status"]["replicaStatuses"]["Worker"].get("active") == 2)
    stage.end("ps-chief-0", 0)
    eventually(lambda: hand.state("TFJob", "ps") == "Succeeded")
    eventually(lambda: names(hand.pods()) == ["ps-chief-0"])
    eventually(lambda: names(hand.core("services")) == ["ps-chief-0"])
    status = hand.job("TFJob", "ps")["status"]
    assert status["completionTime"] >= status["startTime"]
    assert status["replicaStatuses"]["Chief"]["succeeded"] == 1
    assert hand.conditions("TFJob", "ps")["Running"]["status"] == "False"


def test_a_failed_worker_under_never_fails_the_job(hand: Hand, stage: Stage):
    hand.create(pytorchjob("never", Master=1, Worker=1))
    eventually(lambda: hand.state("PyTorchJob", "never") == "Running")
    stage.end("never-worker-0", 1, message="ValueError: no such thing")
    eventually(lambda: hand.state("PyTorchJob", "never") == "Failed")
    condition = hand.conditions("PyTorchJob", "never")["Failed"]
    assert condition["reason"] == "PyTorchJobFailed"
    words = condition["message"]
    assert words.startswith("PyTorchJob never is failed because 1 Worker replica(s) failed. worker-0 ")
    assert words.endswith(": ValueError: no such thing; restartPolicy is Never")
    failure = hand.job("PyTorchJob", "never")["status"]["failure"]
    assert (failure["pod"], failure["replica"], failure["exitCode"]) == ("never-worker-0", "worker-0", 1)
    assert failure["message"] in words
    assert "no such thing" in failure["terminationMessage"]
    eventually(lambda: ("Warning", "PyTorchJobFailed", condition["message"]) in hand.events("never"))


def test_a_retryable_exit_code_restarts_the_whole_group_and_is_counted(hand: Hand, stage: Stage):
    hand.create(pytorchjob("again", restart="ExitCode", Master=1, Worker=2))
    eventually(lambda: hand.state("PyTorchJob", "again") == "Running")
    before = {pod["metadata"]["uid"] for pod in hand.pods()}
    stage.end("again-worker-1", 137)
    eventually(lambda: len(hand.pods()) == 3 and not before & {pod["metadata"]["uid"] for pod in hand.pods()}, 20)
    eventually(lambda: hand.state("PyTorchJob", "again") == "Running")
    found = hand.job("PyTorchJob", "again")["status"]
    assert found["restarts"] == 1
    (restart,) = found["recentRestarts"]
    assert {
        "attempt": 2,
        "replica": "worker-1",
        "class": "Application",
        "exitCode": 137,
        "replicasRestarted": 3,
    }.items() <= restart.items()
    assert 0 <= restart["recoverySeconds"] <= 20
    stage.end("again-master-0", 0)
    eventually(lambda: hand.state("PyTorchJob", "again") == "Succeeded")


def test_the_back_off_limit_ends_the_retries(hand: Hand, stage: Stage):
    hand.create(pytorchjob("enough", restart="ExitCode", policy={"backoffLimit": 1}, Master=1))
    for attempt in range(2):
        eventually(lambda wanted=attempt + 1: stage.created.count("enough-master-0") == wanted, 20)
        eventually(lambda: hand.state("PyTorchJob", "enough") == "Running")
        stage.end("enough-master-0", 137)
        eventually(lambda: hand.state("PyTorchJob", "enough") in ("Restarting", "Failed"))
    condition = eventually(lambda: hand.conditions("PyTorchJob", "enough").get("Failed"))
    words = "Job enough has failed because it has reached the specified backoff limit: 1 of 1 restart used; "
    words += "last failure: master-0 "
    assert condition["message"].startswith(words)
    assert hand.job("PyTorchJob", "enough")["status"]["restarts"] == 1


def test_a_deadline_of_one_second_fires_by_itself(hand: Hand, stage: Stage):
    hand.create(tfjob("late", policy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "All"}, Worker=1))
    condition = eventually(lambda: hand.conditions("TFJob", "late").get("Failed"), 5)
    words = "Job late has failed because it was active longer than specified deadline: limit 1 s; 1 of 1 replica "
    assert condition["message"].startswith(words)
    eventually(lambda: not hand.pods() and not hand.core("services"))


def test_a_ttl_of_zero_deletes_the_job_once_it_is_over(hand: Hand, stage: Stage):
    stage.script = lambda _name: "0"
    hand.create(tfjob("gone", policy={"ttlSecondsAfterFinished": 0}, Worker=1))
    eventually(lambda: hand.job("TFJob", "gone") is None, 15)
    eventually(lambda: not hand.pods() and not hand.core("services"), 30)


def test_a_job_created_suspended_has_no_pods_until_it_is_resumed(hand: Hand, stage: Stage):
    hand.create(tfjob("paused", policy={"suspend": True}, Worker=2))
    eventually(lambda: list(hand.conditions("TFJob", "paused")) == ["Created", "Suspended"])
    assert not hand.pods()
    assert "startTime" not in hand.job("TFJob", "paused")["status"]
    hand.patch_job("TFJob", "paused", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: list(hand.conditions("TFJob", "paused")) == ["Created", "Suspended", "Running"])
    assert hand.conditions("TFJob", "paused")["Suspended"]["reason"] == "TFJobResumed"
    hand.patch_job("TFJob", "paused", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: list(hand.conditions("TFJob", "paused")) == ["Created", "Running", "Suspended"])
    eventually(lambda: not hand.pods() and not hand.core("services"))
    eventually(lambda: not hand.job("TFJob", "paused")["status"]["replicaStatuses"]["Worker"].get("active"))


def test_scaling_down_and_up_keeps_exactly_the_wanted_pods(hand: Hand, stage: Stage):
    hand.create(tfjob("scale", Chief=1, PS=1, Worker=3))
    eventually(lambda: len(hand.pods()) == 5)
    patch = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
    hand.patch_job("TFJob", "scale", patch)
    eventually(lambda: names(hand.pods()) == ["scale-chief-0", "scale-ps-0", "scale-worker-0"])
    eventually(lambda: len(hand.core("services")) == 3)
    patch["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2
    hand.patch_job("TFJob", "scale", patch)
    eventually(lambda: len(hand.pods()) == 4 and len(hand.core("services")) == 4)
    eventually(lambda: hand.state("TFJob", "scale") == "Running")


def test_a_job_managed_elsewhere_is_left_alone(hand: Hand, stage: Stage):
    hand.create(tfjob("theirs", policy={"managedBy": "kueue.x-k8s.io/multikueue"}, Worker=1))
    hand.create(tfjob("ours", policy={"managedBy": "kubeflow.org/training-operator"}, Worker=1))
    eventually(lambda: hand.state("TFJob", "ours") == "Running")
    assert "status" not in hand.job("TFJob", "theirs")
    assert names(hand.pods()) == ["ours-worker-0"]


def test_container_restarts_in_place_count_against_the_limit(hand: Hand, stage: Stage):
    hand.create(tfjob("loop", restart="OnFailure", policy={"backoffLimit": 3}, Worker=2))
    eventually(lambda: hand.state("TFJob", "loop") == "Running")
    stage.restart_in_place("loop-worker-0", 2)
    stage.restart_in_place("loop-worker-1", 1)
    condition = eventually(lambda: hand.conditions("TFJob", "loop").get("Failed"))
    assert "backoff limit" in condition["message"]
