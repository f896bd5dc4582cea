"""The section `Events:` of `kubectl describe`: v1's reasons and messages, each event once."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

from support import Operator
from support.fake_kubelet import FakeKubelet
from support.job_events import Line, event_counts, events
from support.jobs import pytorchjob, template, tfjob
from support.kubectl import kubectl
from support.user_client import UserClient, always, eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")


def each(kind: str, what: str, pods: tuple[str, ...], times: int) -> dict[Line, int]:
    """Every one of these was created or deleted so often."""
    verb = "Created" if what == "Create" else "Deleted"
    return {("Normal", f"Successful{what}{kind}", f"{verb} {kind.lower()}: {pod}"): times for pod in pods}


def troubled(user: UserClient, name: str, **state: dict) -> None:
    """The one container of a pending or running pod is in this state."""
    container = user.pod(name)["spec"]["containers"][0]["name"]
    status = {"name": container, "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": state}
    phase = "Pending" if "waiting" in state else "Running"
    user.set_pod_status(name, {"phase": phase, "containerStatuses": [status]})


def settled(user: UserClient, job: dict, expected: dict[Line, int], within: float = 10) -> None:
    """Wait until the job has exactly these Events."""
    with suppress(AssertionError):
        eventually(lambda: event_counts(user, job) == expected, within)
    assert event_counts(user, job) == expected


PODS = ("life-master-0", "life-worker-0")
PULL = "Error pod life-worker-0 container pytorch waiting message: "
RESTARTING = (
    "job life is restarting because Worker replica(s) failed. "
    "worker-0 on node-0 was killed by SIGKILL (137) 0s after start; restarting all 2 replicas now (restart 1)"
)
FAILED = (
    'job "life" is failing because "Master" replica(s) failed. master-0 on node-0 exited with code 1 after 0s; '
    "restartPolicy ExitCode retries only exit codes 128 and above"
)
NO_NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def test_each_transition_of_a_job_has_one_event(user: UserClient, server: ControlPlane, kubelet: FakeKubelet):
    kubelet.script = lambda _name: ""
    policy = {"ttlSecondsAfterFinished": 2}
    job = user.create(pytorchjob("life", restart="ExitCode", policy=policy, Master=1, Worker=1))
    eventually(lambda: len(user.pods()) == 2)
    expected = each("Service", "Create", PODS, 1) | each("Pod", "Create", PODS, 1)
    settled(user, job, expected)

    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_NODE}
    user.set_pod_status("life-master-0", {"phase": "Pending", "conditions": [unplaced]})
    for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"):
        troubled(user, "life-worker-0", waiting={"reason": reason, "message": "no such image"})
        eventually(lambda wanted=reason: any(line[1] == wanted for line in event_counts(user, job)))
    expected |= {("Warning", reason, f"{PULL}no such image"): 1 for reason in ("ErrImagePull", "ImagePullBackOff")}
    expected |= {("Warning", "Unschedulable", f"Error pod life-master-0 condition message: {NO_NODE}"): 1}
    settled(user, job, expected)

    kubelet.script = lambda _name: "Running"
    eventually(lambda: user.state("PyTorchJob", "life") == "Running")
    kubelet.end("life-worker-0", 137)
    eventually(lambda: kubelet.created.count("life-worker-0") == 2, 20)
    eventually(lambda: user.state("PyTorchJob", "life") == "Running")
    expected |= {("Warning", "PyTorchJobRestarting", RESTARTING): 1}
    expected |= {("Warning", "ExitedWithCode", f"Pod: {user.namespace}.life-worker-0 exited with code 137"): 1}
    expected |= each("Pod", "Delete", PODS, 1) | each("Pod", "Create", PODS, 2)
    settled(user, job, expected)

    user.patch_job("PyTorchJob", "life", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: not user.pods() and not user.core("services"))
    user.patch_job("PyTorchJob", "life", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: user.state("PyTorchJob", "life") == "Running")
    expected |= {("Normal", "PyTorchJobSuspended", "PyTorchJob life is suspended."): 1}
    expected |= {("Normal", "PyTorchJobResumed", "PyTorchJob life is resumed."): 1}
    expected |= each("Pod", "Delete", PODS, 2) | each("Pod", "Create", PODS, 3)
    expected |= each("Service", "Delete", PODS, 1) | each("Service", "Create", PODS, 2)
    settled(user, job, expected)
    described = kubectl(server, user, "describe", "pytorchjob", "life").stdout
    assert re.search(
        r"Warning +ExitedWithCode +\S.* +pytorchjob-controller +Pod: \S+ exited with code 137\n", described
    )
    assert re.search(r"Normal +SuccessfulCreatePod +\S.* +pytorchjob-controller +Created pod: life", described)

    kubelet.end("life-master-0", 1)
    eventually(lambda: user.state("PyTorchJob", "life") in ("Failed", ""))
    eventually(lambda: user.job("PyTorchJob", "life") is None)
    expected |= {("Warning", "ExitedWithCode", f"Pod: {user.namespace}.life-master-0 exited with code 1"): 1}
    expected |= {("Warning", "PyTorchJobFailed", FAILED): 1}
    expected |= {("Normal", "SuccessfulDeletePod", "Deleted job: life"): 1}
    settled(user, job, expected)
    always(lambda: event_counts(user, job) == expected)
    for event in events(user, job):
        assert event["source"] == {"component": "pytorchjob-controller"}
        assert event["reportingComponent"] == "pytorchjob-controller"
        assert event["involvedObject"]["apiVersion"] == "kubeflow.org/v1"
        assert event["firstTimestamp"] <= event["lastTimestamp"]


def test_container_restarts_and_success_have_events(user: UserClient, kubelet: FakeKubelet):
    job = tfjob("well", restart="OnFailure", policy={"ttlSecondsAfterFinished": 1}, Worker=1)
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"] = template("tensorflow", restartPolicy="Never")
    job = user.create(job)
    eventually(lambda: user.state("TFJob", "well") == "Running")
    prefix = "Error pod well-worker-0 container tensorflow"
    troubled(user, "well-worker-0", terminated={"exitCode": 3, "reason": "Error", "message": "no data"})
    failure = f"{prefix} exitCode: 3 terminated message: no data"
    eventually(lambda: event_counts(user, job)["Warning", "Error", failure])
    troubled(user, "well-worker-0", waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s"})
    crash = ("Warning", "CrashLoopBackOff", f"{prefix} waiting message: back-off 10s")
    eventually(lambda: event_counts(user, job)[crash])
    kubelet.end("well-worker-0", 0)
    eventually(lambda: user.job("TFJob", "well") is None)
    in_vain = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    success = f"TFJob {user.namespace}/well successfully completed."
    settled(
        user,
        job,
        each("Service", "Create", ("well-worker-0",), 1)
        | each("Pod", "Create", ("well-worker-0",), 1)
        | {
            ("Warning", "SetPodTemplateRestartPolicy", in_vain): 1,
            ("Warning", "Error", failure): 1,
            crash: 1,
            ("Normal", "TFJobSucceeded", success): 1,
            ("Normal", "SuccessfulDeleteJob", "Deleted job: well"): 1,
        },
    )


@pytest.mark.parametrize(("kind", "reason"), [("pods", "FailedCreatePod"), ("services", "FailedCreateService")])
def test_failed_creations_and_an_exceeded_deadline_are_warnings(user: UserClient, kind: str, reason: str):
    user.make("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {kind: "0"}}})
    path = f"/api/v1/namespaces/{user.namespace}/resourcequotas/none"
    eventually(lambda: "hard" in user.call("GET", path).get("status", {}))
    job = user.create(tfjob("stuck", policy={"activeDeadlineSeconds": 3}, Worker=1))
    eventually(lambda: user.state("TFJob", "stuck") == "Failed")
    late = "Job stuck has failed because it was active longer than specified deadline: limit 3s; 1 of 1 replica "
    verdict = eventually(lambda: [line for line in event_counts(user, job) if line[1] == "TFJobFailed"])
    assert [(line[0], line[2].startswith(late)) for line in verdict] == [("Warning", True)]
    assert event_counts(user, job)[verdict[0]] == 1
    (refused,) = [line for line in event_counts(user, job) if line[1] == reason]
    assert refused[0] == "Warning"
    assert re.match(r"Error creating: .*exceeded quota: none", refused[2])
    assert event_counts(user, job)[refused] >= 2, "each try raises the count of one Event"


def test_a_restarted_operator_does_not_repeat_events_of_lasting_states(
    user: UserClient, server: ControlPlane, kubelet: FakeKubelet, tmp_path: Path
):
    kubelet.script = lambda _name: ""
    job = user.create(tfjob("waits", Worker=1))
    eventually(user.pods)
    troubled(user, "waits-worker-0", waiting={"reason": "ImagePullBackOff", "message": "no such image"})
    line = (
        "Warning",
        "ImagePullBackOff",
        "Error pod waits-worker-0 container tensorflow waiting message: no such image",
    )
    eventually(lambda: event_counts(user, job)[line] == 1)
    before = event_counts(user, job)
    later = Operator(server.kubeconfig, tmp_path, "--no-leader-elect", f"--namespace={user.namespace}").start()
    tried = 'trainshed_api_requests_total{code="409",resource="events",verb="POST"} 1.0'
    eventually(lambda: tried in later.served())
    assert event_counts(user, job) == before
    assert "trainshed_events_dropped_total 0.0" in later.served()
    assert later.stop() == 0
