"""Running, Succeeded, Failed and retries of the other kinds (TO-183 to TO-200)."""

from __future__ import annotations

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
    wait_for_conditions,
)
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

PT, XGB, PD, MPI, JX, TF = "PyTorchJob", "XGBoostJob", "PaddleJob", "MPIJob", "JAXJob", "TFJob"
SUCCEEDED, FAILED = ("Created", "-Running", "Succeeded"), ("Created", "-Running", "Failed")


def uid(user: UserClient, pod: str) -> str:
    """The uid of a pod, nothing while there is none."""
    found = user.pod(pod)
    return found["metadata"]["uid"] if found else ""


def is_another(user: UserClient, pod: str, before: str) -> bool:
    """Return whether the pod was recreated."""
    return uid(user, pod) not in ("", before)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(PT, marks=same("TO-183", "PyTorchJob: the master succeeded, so has the job")),
        pytest.param(PD, marks=same("TO-186", "PaddleJob: the master succeeded, so has the job")),
    ],
)
def test_the_master_decides(user: UserClient, kubelet: FakeKubelet, kind: str):
    create_running(user, job(kind, "a", Master=1, Worker=1), 2)
    kubelet.end("a-master-0", 0)
    succeeded = wait_for_conditions(user, kind, "a", *SUCCEEDED)["Succeeded"]
    assert succeeded["message"] == f"{kind} a is successfully completed."
    assert replica_statuses(user, kind, "a")["Master"]["succeeded"] == 1


@same("TO-184", "PyTorchJob, elastic: one worker of three is enough")
def test_an_elastic_success(user: UserClient, kubelet: FakeKubelet):
    wanted = job(PT, "a", Worker=3)
    wanted["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    create_running(user, wanted, 3)
    kubelet.end("a-worker-1", 0)
    wait_for_conditions(user, PT, "a", *SUCCEEDED)


@same("TO-185", "PyTorchJob with workers only: one of two is not enough")
def test_half_a_success(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(PT, "a", Worker=2), 2)
    kubelet.end("a-worker-0", 0)
    eventually(lambda: replica_statuses(user, PT, "a")["Worker"].get("succeeded") == 1)
    assert condition_types(user, PT, "a") == ["Created", "Running"]
    kubelet.end("a-worker-1", 0)
    wait_for_conditions(user, PT, "a", *SUCCEEDED)


@same("TO-187", "PyTorchJob, Never: a worker failed: so has the job; the master runs on under None")
def test_a_failure_beside_a_running_master(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(PT, "a", restart="Never", Master=1, Worker=1), 2)
    kubelet.end("a-worker-0", 1)
    failed = wait_for_conditions(user, PT, "a", *FAILED)["Failed"]
    assert failed["message"].startswith("PyTorchJob a is failed because 1 Worker replica(s) failed. worker-0 ")
    assert status(user, PT, "a")["completionTime"]
    always(lambda: user.pod("a-master-0")["status"]["phase"] == "Running")


@pytest.mark.fault("H2")
@same("TO-188", "PyTorchJob, OnFailure: an evicted worker is created again")
def test_an_eviction(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(PT, "a", restart="OnFailure", Master=1, Worker=1), 2)
    before = uid(user, "a-worker-0")
    kubelet.script = lambda _name: ""
    kubelet.evict("a-worker-0")
    eventually(lambda: "Restarting" in condition_types(user, PT, "a"))
    kubelet.script = lambda _name: "Running"
    eventually(lambda: is_another(user, "a-worker-0", before))
    wait_for_conditions(user, PT, "a", "Created", "Running")


@pytest.mark.fault("H1")
@same("TO-189", "PyTorchJob, OnFailure: a worker that is deleted is created again, the job restarts and does not fail")
def test_a_deletion(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(PT, "a", restart="OnFailure", Master=1, Worker=1), 2)
    before = uid(user, "a-worker-0")
    set_pod_finalizer(user, "a-worker-0")
    user.delete("pods", "a-worker-0")
    wait_for_conditions(user, PT, "a", "Created", "Restarting")
    set_pod_finalizer(user, "a-worker-0", held=False)
    eventually(lambda: is_another(user, "a-worker-0", before))
    wait_for_conditions(user, PT, "a", "Created", "Running")


@differs("TO-190", "D3", "TFJob, OnFailure: a worker that is deleted is created again, and the job does not fail")
def test_a_deletion_from_a_tfjob(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", restart="OnFailure", PS=1, Worker=2), 3)
    before = uid(user, "a-worker-1")
    set_pod_finalizer(user, "a-worker-1")
    user.delete("pods", "a-worker-1")
    always(lambda: "Failed" not in condition_types(user, TF, "a"))
    set_pod_finalizer(user, "a-worker-1", held=False)
    eventually(lambda: is_another(user, "a-worker-1", before))
    wait_for_conditions(user, TF, "a", "Created", "Running")
    assert not status(user, TF, "a").get("restarts"), "a disruption is not counted"


@differs("TO-191", "D33", "XGBoostJob: a failed pod is tried again under OnFailure, and by exit code under ExitCode")
def test_xgboost_tries_again(user: UserClient, kubelet: FakeKubelet):
    for name, restart, code in (("on", "OnFailure", 1), ("by", "ExitCode", 130)):
        create_running(user, job(XGB, name, restart=restart, Master=1, Worker=1), 2)
        before = uid(user, f"{name}-worker-0")
        kubelet.end(f"{name}-worker-0", code)
        eventually(lambda name=name, before=before: is_another(user, f"{name}-worker-0", before), 20)
        wait_for_conditions(user, XGB, name, "Created", "Running")


@pytest.mark.parametrize(
    "ttl",
    [
        pytest.param(
            None, marks=differs("TO-192", "D5", "PyTorchJob, ExitCode: a permanent code gives a completion time")
        ),
        pytest.param(2, marks=differs("TO-193", "D5", "PyTorchJob, ExitCode: and so the job is deleted at its time")),
    ],
)
def test_a_permanent_exit_code(user: UserClient, kubelet: FakeKubelet, ttl: int | None):
    policy = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    create_running(user, job(PT, "a", restart="ExitCode", policy=policy, Master=1, Worker=1), 2)
    kubelet.end("a-worker-0", 1)
    failed = wait_for_conditions(user, PT, "a", *FAILED)["Failed"]
    assert failed["message"].startswith('job "a" is failing because "Worker" replica(s) failed. worker-0 ')
    assert status(user, PT, "a")["completionTime"]
    if ttl is not None:
        eventually(lambda: user.job(PT, "a") is None)


@same("TO-194", "MPIJob: the launcher succeeded: so has the job; workers count as nothing then")
def test_a_launcher_succeeds(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(MPI, "m", Launcher=1, Worker=2), 3)
    kubelet.end("m-launcher", 0)
    succeeded = wait_for_conditions(user, MPI, "m", *SUCCEEDED)["Succeeded"]
    assert succeeded["message"] == "MPIJob m is successfully completed."
    counts = replica_statuses(user, MPI, "m")
    assert counts["Launcher"]["succeeded"] == 1
    assert not {"active", "succeeded", "failed"} & counts["Worker"].keys()


@differs("TO-195", "D14", "MPIJob: the launcher failed: so has the job, and the reason is MPIJobFailed")
def test_a_launcher_fails(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(MPI, "m", Launcher=1, Worker=2), 3)
    kubelet.end("m-launcher", 1)
    assert wait_for_conditions(user, MPI, "m", *FAILED)["Failed"]["reason"] == "MPIJobFailed"
    assert replica_statuses(user, MPI, "m")["Launcher"]["failed"] == 1


@same("TO-196", "MPIJob: the launcher runs and 8 workers are pending: 1 and 0 are active, and the job runs")
def test_a_launcher_waits(user: UserClient, kubelet: FakeKubelet):
    kubelet.script = lambda name: "" if "worker" in name else "Running"
    create_with_pods(user, job(MPI, "m", Launcher=1, Worker=8), 9)
    eventually(lambda: "Running" in condition_types(user, MPI, "m"))
    counts = replica_statuses(user, MPI, "m")
    assert counts["Launcher"]["active"] == 1
    assert not counts.get("Worker", {}).get("active")


@same("TO-197", "MPIJob: launcher and 8 workers run: 1 and 8 are active")
def test_all_run(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(MPI, "m", Launcher=1, Worker=8), 9)
    assert {role: count["active"] for role, count in replica_statuses(user, MPI, "m").items()} == {
        "Launcher": 1,
        "Worker": 8,
    }
    assert condition_types(user, MPI, "m") == ["Created", "Running"]


@same("TO-198", "MPIJob: 16 workers run and the launcher is pending: the job does not run yet")
def test_a_launcher_is_pending(user: UserClient, kubelet: FakeKubelet):
    kubelet.script = lambda name: "" if "launcher" in name else "Running"
    user.create(job(MPI, "m", Launcher=1, Worker=16))
    eventually(lambda: "m-launcher" in names(user.pods()))
    eventually(lambda: replica_statuses(user, MPI, "m").get("Worker", {}).get("active") == 16)
    assert not replica_statuses(user, MPI, "m")["Launcher"].get("active")
    assert "Running" not in condition_types(user, MPI, "m")


@differs("TO-199", "D14", "MPIJob, ExitCode: a launcher that was killed is created again")
def test_a_launcher_is_tried_again(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(MPI, "m", restart="ExitCode", Launcher=1, Worker=2), 3)
    before = uid(user, "m-launcher")
    kubelet.end("m-launcher", 137)
    eventually(lambda: is_another(user, "m-launcher", before))
    wait_for_conditions(user, MPI, "m", "Created", "Running")


@same("TO-200", "JAXJob: both workers succeeded, so has the job")
def test_a_jax_job_succeeds(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(JX, "a", Worker=2), 2)
    end_pods(kubelet, {"a-worker-0": 0, "a-worker-1": 0})
    succeeded = wait_for_conditions(user, JX, "a", *SUCCEEDED)["Succeeded"]
    assert succeeded["message"] == f"JAXJob {user.namespace}/a successfully completed."
