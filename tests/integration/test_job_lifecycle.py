"""A job on a real API server, from its creation to its terminal condition and its TTL."""

from __future__ import annotations

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import pytorchjob, tfjob
from support.user_client import UserClient, eventually

pytestmark = pytest.mark.usefixtures("shared_operator")

PS_JOB = {"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}


def names(objects: list[dict]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in objects)


def test_a_parameter_server_job_succeeds_with_its_chief(user: UserClient, kubelet: FakeKubelet):
    user.create(tfjob("ps", policy={"cleanPodPolicy": "Running"}, **PS_JOB))
    eventually(lambda: user.state("TFJob", "ps") == "Running")
    expected = ["ps-chief-0", "ps-evaluator-0", "ps-ps-0", "ps-ps-1", "ps-worker-0", "ps-worker-1"]
    assert names(user.pods()) == expected
    assert names(user.core("services")) == expected
    eventually(lambda: user.job("TFJob", "ps")["status"]["replicaStatuses"]["Worker"].get("active") == 2)
    kubelet.end("ps-chief-0", 0)
    eventually(lambda: user.state("TFJob", "ps") == "Succeeded")
    eventually(lambda: names(user.pods()) == ["ps-chief-0"])
    eventually(lambda: names(user.core("services")) == ["ps-chief-0"])
    status = user.job("TFJob", "ps")["status"]
    assert status["completionTime"] >= status["startTime"]
    assert status["replicaStatuses"]["Chief"]["succeeded"] == 1
    assert user.conditions("TFJob", "ps")["Running"]["status"] == "False"


def test_a_failed_worker_under_never_fails_the_job(user: UserClient, kubelet: FakeKubelet):
    user.create(pytorchjob("never", Master=1, Worker=1))
    eventually(lambda: user.state("PyTorchJob", "never") == "Running")
    kubelet.end("never-worker-0", 1, message="ValueError: no such thing")
    eventually(lambda: user.state("PyTorchJob", "never") == "Failed")
    condition = user.conditions("PyTorchJob", "never")["Failed"]
    assert condition["reason"] == "PyTorchJobFailed"
    words = condition["message"]
    assert words.startswith("PyTorchJob never is failed because 1 Worker replica(s) failed. worker-0 ")
    assert words.endswith(": ValueError: no such thing; restartPolicy is Never")
    failure = user.job("PyTorchJob", "never")["status"]["failure"]
    assert (failure["pod"], failure["replica"], failure["exitCode"]) == ("never-worker-0", "worker-0", 1)
    assert failure["message"] in words
    assert "no such thing" in failure["terminationMessage"]
    eventually(lambda: ("Warning", "PyTorchJobFailed", condition["message"]) in user.events("never"))


def test_a_retryable_exit_code_restarts_the_whole_group_and_is_counted(user: UserClient, kubelet: FakeKubelet):
    user.create(pytorchjob("again", restart="ExitCode", Master=1, Worker=2))
    eventually(lambda: user.state("PyTorchJob", "again") == "Running")
    before = {pod["metadata"]["uid"] for pod in user.pods()}
    kubelet.end("again-worker-1", 137)
    eventually(lambda: len(user.pods()) == 3 and not before & {pod["metadata"]["uid"] for pod in user.pods()}, 20)
    eventually(lambda: user.state("PyTorchJob", "again") == "Running")
    found = user.job("PyTorchJob", "again")["status"]
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
    kubelet.end("again-master-0", 0)
    eventually(lambda: user.state("PyTorchJob", "again") == "Succeeded")


def test_the_back_off_limit_ends_the_retries(user: UserClient, kubelet: FakeKubelet):
    user.create(pytorchjob("enough", restart="ExitCode", policy={"backoffLimit": 1}, Master=1))
    for attempt in range(2):
        eventually(lambda wanted=attempt + 1: kubelet.created.count("enough-master-0") == wanted, 20)
        eventually(lambda: user.state("PyTorchJob", "enough") == "Running")
        kubelet.end("enough-master-0", 137)
        eventually(lambda: user.state("PyTorchJob", "enough") in ("Restarting", "Failed"))
    condition = eventually(lambda: user.conditions("PyTorchJob", "enough").get("Failed"))
    words = "Job enough has failed because it has reached the specified backoff limit: 1 of 1 restart used; "
    words += "last failure: master-0 "
    assert condition["message"].startswith(words)
    assert user.job("PyTorchJob", "enough")["status"]["restarts"] == 1


def test_a_deadline_of_one_second_fires_by_itself(user: UserClient, kubelet: FakeKubelet):
    user.create(tfjob("late", policy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "All"}, Worker=1))
    condition = eventually(lambda: user.conditions("TFJob", "late").get("Failed"), 5)
    words = "Job late has failed because it was active longer than specified deadline: limit 1 s; 1 of 1 replica "
    assert condition["message"].startswith(words)
    eventually(lambda: not user.pods() and not user.core("services"))


def test_a_ttl_of_zero_deletes_the_job_once_it_is_over(user: UserClient, kubelet: FakeKubelet):
    kubelet.script = lambda _name: "0"
    user.create(tfjob("gone", policy={"ttlSecondsAfterFinished": 0}, Worker=1))
    eventually(lambda: user.job("TFJob", "gone") is None, 15)
    eventually(lambda: not user.pods() and not user.core("services"), 30)


def test_a_job_created_suspended_has_no_pods_until_it_is_resumed(user: UserClient, kubelet: FakeKubelet):
    user.create(tfjob("paused", policy={"suspend": True}, Worker=2))
    eventually(lambda: list(user.conditions("TFJob", "paused")) == ["Created", "Suspended"])
    assert not user.pods()
    assert "startTime" not in user.job("TFJob", "paused")["status"]
    user.patch_job("TFJob", "paused", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: list(user.conditions("TFJob", "paused")) == ["Created", "Suspended", "Running"])
    assert user.conditions("TFJob", "paused")["Suspended"]["reason"] == "TFJobResumed"
    user.patch_job("TFJob", "paused", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: list(user.conditions("TFJob", "paused")) == ["Created", "Running", "Suspended"])
    eventually(lambda: not user.pods() and not user.core("services"))
    eventually(lambda: not user.job("TFJob", "paused")["status"]["replicaStatuses"]["Worker"].get("active"))


@pytest.mark.fault("I3")
def test_scaling_down_and_up_keeps_exactly_the_wanted_pods(user: UserClient, kubelet: FakeKubelet):
    user.create(tfjob("scale", Chief=1, PS=1, Worker=3))
    eventually(lambda: len(user.pods()) == 5)
    patch = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
    user.patch_job("TFJob", "scale", patch)
    eventually(lambda: names(user.pods()) == ["scale-chief-0", "scale-ps-0", "scale-worker-0"])
    eventually(lambda: len(user.core("services")) == 3)
    patch["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2
    user.patch_job("TFJob", "scale", patch)
    eventually(lambda: len(user.pods()) == 4 and len(user.core("services")) == 4)
    eventually(lambda: user.state("TFJob", "scale") == "Running")


@pytest.mark.fault("I12")
def test_a_job_managed_elsewhere_is_left_alone(user: UserClient, kubelet: FakeKubelet):
    user.create(tfjob("theirs", policy={"managedBy": "kueue.x-k8s.io/multikueue"}, Worker=1))
    user.create(tfjob("own", policy={"managedBy": "kubeflow.org/training-operator"}, Worker=1))
    eventually(lambda: user.state("TFJob", "own") == "Running")
    assert "status" not in user.job("TFJob", "theirs")
    assert names(user.pods()) == ["own-worker-0"]


def test_container_restarts_in_place_count_against_the_limit(user: UserClient, kubelet: FakeKubelet):
    user.create(tfjob("loop", restart="OnFailure", policy={"backoffLimit": 3}, Worker=2))
    eventually(lambda: user.state("TFJob", "loop") == "Running")
    kubelet.restart_in_place("loop-worker-0", 2)
    kubelet.restart_in_place("loop-worker-1", 1)
    condition = eventually(lambda: user.conditions("TFJob", "loop").get("Failed"))
    assert "backoff limit" in condition["message"]
