"""Failures on a real API server: what the status says, settle delay, stuck pods, start-up deadlines, kept results."""

from __future__ import annotations

import time

import pytest

from support import FakeKubelet, Operator, Operators, UserClient
from support.jobs import job, pod_spec, pytorchjob
from support.user_client import MERGE, eventually
from testbed.control_plane import ControlPlane

#: A minute is enough for all of these, on a machine that is busy with others, too.
MINUTE = 60.0


def annotated(name: str, annotations: dict[str, str], **fields) -> dict:
    """A PyTorchJob with annotations of Trainshed."""
    wanted = job("PyTorchJob", name, **{"Master": 1, **fields})
    wanted["metadata"]["annotations"] = {f"trainshed.dev/{name}": value for name, value in annotations.items()}
    return wanted


def says(user: UserClient, kind: str, name: str = "a") -> str:
    """The message of a condition that is true, or nothing."""
    condition = user.conditions("PyTorchJob", name).get(kind, {})
    return condition.get("message", "") if condition.get("status") == "True" else ""


def uid(user: UserClient, name: str) -> str:
    """Return the UID of the pod of that name, or nothing."""
    return (user.pod(name) or {}).get("metadata", {}).get("uid", "")


@pytest.fixture
def keeper(second_server: ControlPlane, second_user: UserClient, operators: Operators) -> Operator:
    """An operator that keeps results."""
    return operators.begin(
        second_server.kubeconfig, "--no-leader-elect", "--track-results", f"--namespace={second_user.namespace}"
    )


@pytest.mark.usefixtures("shared_operator")
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


@pytest.mark.usefixtures("shared_operator")
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


@pytest.mark.usefixtures("shared_operator")
def test_a_cascading_failure_that_is_reported_first_does_not_fail_the_job(user: UserClient, kubelet: FakeKubelet):
    user.create(job("PyTorchJob", "a", Master=1, Worker=1, restart="ExitCode"))
    eventually(lambda: says(user, "Running"), MINUTE)
    kubelet.end("a-worker-0", 1)
    kubelet.end("a-master-0", 137)
    eventually(lambda: says(user, "Restarting") or says(user, "Failed"), MINUTE)
    assert says(user, "Failed") == ""
    assert user.job("PyTorchJob", "a")["status"]["failure"]["pod"] == "a-master-0"


@pytest.mark.fault("H4")
@pytest.mark.usefixtures("shared_operator")
def test_a_pod_on_an_unreachable_node_is_replaced_after_force_delete_after(user: UserClient):
    nodes = FakeKubelet(user)  # not entered: it confirms no deletions
    user.create(annotated("a", {"force-delete-after": "1s"}))
    eventually(lambda: user.pod("a-master-0"), MINUTE)
    user.bind("a-master-0", "node-0")
    nodes.run("a-master-0")
    eventually(lambda: says(user, "Running"), MINUTE)
    before = uid(user, "a-master-0")
    user.delete("pods", "a-master-0", grace=1)
    eventually(lambda: uid(user, "a-master-0") not in ("", before), MINUTE)
    assert user.job("PyTorchJob", "a")["status"]["failure"]["class"] == "Disruption"


@pytest.mark.fault("H11")
@pytest.mark.usefixtures("shared_operator")
def test_an_image_pull_failure_fails_a_job_at_its_startup_deadline(user: UserClient):
    user.create(annotated("a", {"startup-deadline": "3s"}))
    eventually(lambda: user.pod("a-master-0"), MINUTE)
    user.bind("a-master-0", "node-0")
    waiting = {"reason": "ErrImagePull", "message": "pull access denied for x"}
    container = {"name": "pytorch", "image": "x:1", "imageID": "", "ready": False, "restartCount": 0}
    user.set_pod_status("a-master-0", {"containerStatuses": [container | {"state": {"waiting": waiting}}]})
    eventually(lambda: says(user, "Failed"), MINUTE)
    assert says(user, "Failed").endswith("image x:1 cannot be pulled: pull access denied for x")


@pytest.mark.fault("C10")
def test_the_result_of_a_pod_deleted_while_no_operator_runs_is_kept(keeper: Operator, second_user: UserClient):
    nodes = FakeKubelet(second_user)
    second_user.create(annotated("a", {"track-results": "true"}))
    eventually(lambda: second_user.pod("a-master-0"), MINUTE)
    second_user.bind("a-master-0", "node-0")
    nodes.run("a-master-0")
    eventually(lambda: says(second_user, "Running"), MINUTE)
    keeper.kill()
    nodes.end("a-master-0", 0)
    second_user.delete("pods", "a-master-0")
    assert uid(second_user, "a-master-0"), "it is held"
    keeper.start()
    eventually(lambda: says(second_user, "Succeeded"), MINUTE)
    eventually(lambda: second_user.pod("a-master-0") is None, MINUTE)
    assert second_user.job("PyTorchJob", "a")["status"]["replicaStatuses"]["Master"]["succeeded"] == 1


def test_the_finalizer_is_removed_from_pods_of_a_deleted_job(keeper: Operator, second_user: UserClient):
    nodes = FakeKubelet(second_user)
    second_user.create(annotated("a", {"track-results": "true"}))
    eventually(lambda: second_user.pod("a-master-0"), MINUTE)
    second_user.bind("a-master-0", "node-0")
    nodes.run("a-master-0")
    keeper.kill()
    second_user.delete_job("PyTorchJob", "a")
    second_user.delete("pods", "a-master-0", grace=0)
    time.sleep(0.5)
    assert uid(second_user, "a-master-0"), "it is held"
    keeper.start()
    eventually(lambda: second_user.pod("a-master-0") is None, MINUTE)
    assert keeper.complaints() == []


def test_what_a_node_and_its_events_say_is_in_the_failure(
    second_server: ControlPlane, second_user: UserClient, operators: Operators
):
    user, node = second_user, "node-health"
    operators.begin(second_server.kubeconfig, "--no-leader-elect", "--node-health", f"--namespace={user.namespace}")
    user.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    wanted = pytorchjob("sick", Master=1)
    pod_spec(wanted, "Master")["nodeName"] = node
    with FakeKubelet(user) as kubelet:
        user.create(wanted)
        eventually(lambda: user.state("PyTorchJob", "sick") == "Running")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        bad = {"type": "KernelDeadlock", "status": "True", "message": "task hung", "lastTransitionTime": now}
        user.call("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": [bad]}}, MERGE)
        about = {"kind": "Node", "name": node, "uid": node}
        event = {"metadata": {"generateName": node}, "involvedObject": about, "type": "Warning", "lastTimestamp": now}
        for reason, others in (("KernelOops", {}), ("Other", {"involvedObject": about | {"name": "node-other"}})):
            user.call("POST", "/api/v1/namespaces/default/events", event | {"reason": reason} | others)
        kubelet.end("sick-master-0", 1)
        failure = eventually(lambda: user.job("PyTorchJob", "sick")["status"].get("failure"))
    user.call("DELETE", f"/api/v1/nodes/{node}")
    assert failure["class"] == "Infrastructure"
    words = f" ({node} failed meanwhile: KernelDeadlock: task hung; said about {node}: KernelOops: KernelOops)"
    assert failure["message"].endswith(words)
