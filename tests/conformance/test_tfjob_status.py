"""The counts and the retries of a TFJob (TO-170 to TO-182)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from support import FakeKubelet, UserClient
from support.jobs import job
from support.pods import names
from support.user_client import always, eventually

from .lifecycle import (
    condition_types,
    create_running,
    create_with_pods,
    end_pods,
    replica_statuses,
    set_pod_finalizer,
    status,
    suspend,
    wait_for_conditions,
)
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

TF = "TFJob"
RUNNING, SUCCEEDED, FAILED = (
    ["Created", "Running"],
    ["Created", "-Running", "Succeeded"],
    ["Created", "-Running", "Failed"],
)
PS_JOB = {"PS": 2, "Worker": 4}
WORKERS = {f"a-worker-{index}": 0 for index in range(4)}


@same("TO-170", "TFJob, ExitCode: chief and workers ended with 130: Restarting, the pods are deleted")
def test_retryable_failures(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", restart="ExitCode", Chief=1, Worker=4), 5)
    before = {pod["metadata"]["uid"] for pod in user.pods()}
    end_pods(kubelet, dict.fromkeys(["a-chief-0", *WORKERS], 130))
    eventually(lambda: "Restarting" in condition_types(user, TF, "a"))
    eventually(lambda: not before & {pod["metadata"]["uid"] for pod in user.pods()})


@same("TO-171", "TFJob: worker 0 defines success, whatever the other workers do, and no worker where there is a chief")
def test_who_decides(user: UserClient, kubelet: FakeKubelet):
    for name, roles in (("one", {"Worker": 2}), ("two", {"Chief": 1}), ("three", {"Worker": 2})):
        create_running(user, job(TF, name, **roles), sum(roles.values()))
    end_pods(kubelet, {"one-worker-0": 0, "two-chief-0": 0, "three-worker-1": 1})
    wait_for_conditions(user, TF, "one", *SUCCEEDED)
    wait_for_conditions(user, TF, "two", *SUCCEEDED)
    wait_for_conditions(user, TF, "three", *FAILED)
    end_pods(kubelet, {"one-worker-1": 1})
    always(lambda: condition_types(user, TF, "one") == SUCCEEDED)


@same("TO-172", "TFJob: all pods run: counts, reason TFJobRunning, start time")
def test_all_run(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", **PS_JOB), 6)
    found = status(user, TF, "a")
    assert {role: count["active"] for role, count in found["replicaStatuses"].items()} == PS_JOB
    assert user.conditions(TF, "a")["Running"]["reason"] == "TFJobRunning"
    assert abs((datetime.now(UTC) - datetime.fromisoformat(found["startTime"])).total_seconds()) < 60


@pytest.mark.parametrize(
    ("code", "counted"),
    [
        pytest.param(None, "active", marks=same("TO-173", "TFJob: missing pods and Services are made beside others")),
        pytest.param(0, "succeeded", marks=same("TO-174", "TFJob: and beside a worker that succeeded")),
    ],
)
def test_what_is_missing_is_made(user: UserClient, kubelet: FakeKubelet, code: int | None, counted: str):
    kubelet.script = lambda name: "Running" if name == "a-worker-1" else ""
    create_with_pods(user, job(TF, "a", **PS_JOB), 6)
    eventually(lambda: replica_statuses(user, TF, "a").get("Worker", {}).get("active") == 1)
    if code is not None:
        kubelet.end("a-worker-1", code)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}
    for gone in ("a-worker-3", "a-ps-1"):
        user.delete("services", gone)
        user.delete("pods", gone, grace=0)
    eventually(lambda: names(user.pods()) == names(user.core("services")) == sorted(uids))
    again = {name for name, uid in uids.items() if user.pod(name)["metadata"]["uid"] != uid}
    assert again == {"a-worker-3", "a-ps-1"}
    eventually(lambda: replica_statuses(user, TF, "a")["Worker"].get(counted) == 1)
    assert "Running" in condition_types(user, TF, "a")


@same("TO-175", "TFJob: all succeeded: counts, and reason TFJobSucceeded")
def test_all_succeed(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", **PS_JOB), 6)
    end_pods(kubelet, {"a-ps-0": 0, "a-ps-1": 0, "a-worker-3": 0, "a-worker-2": 0, "a-worker-1": 0, "a-worker-0": 0})
    assert wait_for_conditions(user, TF, "a", *SUCCEEDED)["Succeeded"]["reason"] == "TFJobSucceeded"
    assert {role: count["succeeded"] for role, count in replica_statuses(user, TF, "a").items()} == PS_JOB


@same("TO-176", "TFJob, ExitCode: a pod that ended with 130 is deleted and made again")
def test_a_retryable_exit_code(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", restart="ExitCode", Worker=1), 1)
    uid = user.pod("a-worker-0")["metadata"]["uid"]
    kubelet.end("a-worker-0", 130)
    eventually(lambda: (user.pod("a-worker-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    wait_for_conditions(user, TF, "a", "Created", "Running")


@differs("TO-177", "D48", "TFJob, ExitCode: a pod that ended with 1 fails the job, with v1's words and who it was")
def test_a_permanent_exit_code(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", restart="ExitCode", Worker=1), 1)
    kubelet.end("a-worker-0", 1)
    failed = wait_for_conditions(user, TF, "a", *FAILED)["Failed"]
    assert failed["reason"] == "TFJobFailed"
    assert failed["message"].startswith('job "a" is failing because "Worker" replica(s) failed. ')
    own = failed["message"].partition("failed. ")[2]
    why = "; restartPolicy ExitCode retries only exit codes 128 and above"
    assert re.fullmatch(rf"worker-0( on \S+)? exited with code 1( after \d+s)?{why}", own)


@same("TO-178", "ExitCode: 128 and above may be tried again, 1 to 127 may not")
def test_which_exit_codes_may_be_tried_again(user: UserClient, kubelet: FakeKubelet):
    codes = {1: False, 2: False, 3: False, 127: False, 128: True, 130: True, 138: True}
    for code in codes:
        user.create(job(TF, f"exit-{code}", restart="ExitCode", Worker=1))
    eventually(lambda: all(user.state(TF, f"exit-{code}") == "Running" for code in codes))
    for code in codes:
        kubelet.end(f"exit-{code}-worker-0", code)
    eventually(lambda: all(user.state(TF, f"exit-{code}") == "Failed" for code, again in codes.items() if not again))
    eventually(lambda: all(status(user, TF, f"exit-{code}").get("restarts") == 1 for code in codes if codes[code]))
    assert not any("Failed" in condition_types(user, TF, f"exit-{code}") for code, again in codes.items() if again)


@pytest.mark.fault("H6")
@same("TO-179", "ExitCode: a pod that failed without an exit code may be tried again")
def test_a_failure_without_an_exit_code(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", restart="ExitCode", Worker=1), 1)
    uid = user.pod("a-worker-0")["metadata"]["uid"]
    user.set_pod_status("a-worker-0", {"phase": "Failed", "containerStatuses": None})
    eventually(lambda: (user.pod("a-worker-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    wait_for_conditions(user, TF, "a", "Created", "Running")


@differs("TO-180", "D3, D18", "a running pod that is being deleted counts as active until it is gone, not as failed")
def test_how_pods_are_counted(user: UserClient, kubelet: FakeKubelet):
    wanted = job(TF, "a", PS=1, Worker=7)
    wanted["spec"] |= {"enableDynamicWorker": True, "successPolicy": "AllWorkers"}
    create_running(user, wanted, 8)
    set_pod_finalizer(user, "a-worker-6")
    end_pods(kubelet, {"a-worker-0": 0, "a-worker-1": 0, "a-worker-2": 0, "a-worker-3": 1, "a-worker-4": 1})
    user.delete("pods", "a-worker-6")
    expected = {"active": 2, "succeeded": 3, "failed": 2}
    eventually(lambda: expected.items() <= replica_statuses(user, TF, "a")["Worker"].items())
    set_pod_finalizer(user, "a-worker-6", held=False)


@same("TO-181", "Restarting takes the place of Running, Running that of Restarting; a failure leaves Running false")
def test_how_conditions_follow_each_other(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", restart="ExitCode", Worker=1), 1)
    assert condition_types(user, TF, "a") == ["Created", "Running"]
    kubelet.script = lambda _name: ""
    kubelet.end("a-worker-0", 130)
    wait_for_conditions(user, TF, "a", "Created", "Restarting")
    kubelet.script = lambda _name: "Running"
    wait_for_conditions(user, TF, "a", "Created", "Running")
    kubelet.end("a-worker-0", 1)
    wait_for_conditions(user, TF, "a", "Created", "-Running", "Failed")


@same("TO-182", "a job that succeeded or failed is over, one that is suspended is not")
def test_what_is_over(user: UserClient, kubelet: FakeKubelet):
    for name in ("won", "lost", "paused"):
        create_running(user, job(TF, name, Worker=1), 1)
    end_pods(kubelet, {"won-worker-0": 0, "lost-worker-0": 1})
    wait_for_conditions(user, TF, "won", *SUCCEEDED)
    wait_for_conditions(user, TF, "lost", *FAILED)
    suspend(user, TF, "paused")
    eventually(lambda: names(user.pods()) == ["lost-worker-0", "won-worker-0"])
    for name in ("won-worker-0", "lost-worker-0"):
        user.delete("pods", name, grace=0)
    suspend(user, TF, "paused", suspended=False)
    eventually(lambda: names(user.pods()) == ["paused-worker-0"])
    always(lambda: names(user.pods()) == ["paused-worker-0"])
