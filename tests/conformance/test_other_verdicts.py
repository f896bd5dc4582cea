"""When jobs of the other kinds run, succeed, fail and are tried again (TO-183 to TO-200)."""

from __future__ import annotations

import pytest

from support import Hand, Stage
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


def uid(hand: Hand, pod: str) -> str:
    """The uid of a pod, nothing while there is none."""
    found = hand.pod(pod)
    return found["metadata"]["uid"] if found else ""


def is_another(hand: Hand, pod: str, before: str) -> bool:
    """Whether the pod was made anew."""
    return uid(hand, pod) not in ("", before)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(PT, marks=same("TO-183", "PyTorchJob: the master succeeded, so has the job")),
        pytest.param(PD, marks=same("TO-186", "PaddleJob: the master succeeded, so has the job")),
    ],
)
def test_the_master_decides(hand: Hand, stage: Stage, kind: str):
    create_running(hand, job(kind, "a", Master=1, Worker=1), 2)
    stage.end("a-master-0", 0)
    succeeded = wait_for_conditions(hand, kind, "a", *SUCCEEDED)["Succeeded"]
    assert succeeded["message"] == f"{kind} a is successfully completed."
    assert replica_statuses(hand, kind, "a")["Master"]["succeeded"] == 1


@same("TO-184", "PyTorchJob, elastic: one worker of three is enough")
def test_an_elastic_success(hand: Hand, stage: Stage):
    wanted = job(PT, "a", Worker=3)
    wanted["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    create_running(hand, wanted, 3)
    stage.end("a-worker-1", 0)
    wait_for_conditions(hand, PT, "a", *SUCCEEDED)


@same("TO-185", "PyTorchJob with workers only: one of two is not enough")
def test_half_a_success(hand: Hand, stage: Stage):
    create_running(hand, job(PT, "a", Worker=2), 2)
    stage.end("a-worker-0", 0)
    eventually(lambda: replica_statuses(hand, PT, "a")["Worker"].get("succeeded") == 1)
    assert condition_types(hand, PT, "a") == ["Created", "Running"]
    stage.end("a-worker-1", 0)
    wait_for_conditions(hand, PT, "a", *SUCCEEDED)


@same("TO-187", "PyTorchJob, Never: a worker failed: so has the job; the master runs on under None")
def test_a_failure_beside_a_running_master(hand: Hand, stage: Stage):
    create_running(hand, job(PT, "a", restart="Never", Master=1, Worker=1), 2)
    stage.end("a-worker-0", 1)
    failed = wait_for_conditions(hand, PT, "a", *FAILED)["Failed"]
    assert failed["message"].startswith("PyTorchJob a is failed because 1 Worker replica(s) failed. worker-0 ")
    assert status(hand, PT, "a")["completionTime"]
    always(lambda: hand.pod("a-master-0")["status"]["phase"] == "Running")


@same("TO-188", "PyTorchJob, OnFailure: an evicted worker is made again")
def test_an_eviction(hand: Hand, stage: Stage):
    create_running(hand, job(PT, "a", restart="OnFailure", Master=1, Worker=1), 2)
    before = uid(hand, "a-worker-0")
    stage.script = lambda _name: ""
    stage.evict("a-worker-0")
    eventually(lambda: "Restarting" in condition_types(hand, PT, "a"))
    stage.script = lambda _name: "Running"
    eventually(lambda: is_another(hand, "a-worker-0", before))
    wait_for_conditions(hand, PT, "a", "Created", "Running")


@same("TO-189", "PyTorchJob, OnFailure: a worker that is deleted is made again, the job restarts and does not fail")
def test_a_deletion(hand: Hand, stage: Stage):
    create_running(hand, job(PT, "a", restart="OnFailure", Master=1, Worker=1), 2)
    before = uid(hand, "a-worker-0")
    set_pod_finalizer(hand, "a-worker-0")
    hand.delete("pods", "a-worker-0")
    wait_for_conditions(hand, PT, "a", "Created", "Restarting")
    set_pod_finalizer(hand, "a-worker-0", held=False)
    eventually(lambda: is_another(hand, "a-worker-0", before))
    wait_for_conditions(hand, PT, "a", "Created", "Running")


@differs("TO-190", "D3", "TFJob, OnFailure: a worker that is deleted is made again, and the job does not fail")
def test_a_deletion_from_a_tfjob(hand: Hand, stage: Stage):
    create_running(hand, job(TF, "a", restart="OnFailure", PS=1, Worker=2), 3)
    before = uid(hand, "a-worker-1")
    set_pod_finalizer(hand, "a-worker-1")
    hand.delete("pods", "a-worker-1")
    always(lambda: "Failed" not in condition_types(hand, TF, "a"))
    set_pod_finalizer(hand, "a-worker-1", held=False)
    eventually(lambda: is_another(hand, "a-worker-1", before))
    wait_for_conditions(hand, TF, "a", "Created", "Running")


@differs("TO-191", "D33", "XGBoostJob: a failed pod is tried again under OnFailure, and by exit code under ExitCode")
def test_xgboost_tries_again(hand: Hand, stage: Stage):
    for name, restart, code in (("on", "OnFailure", 1), ("by", "ExitCode", 130)):
        create_running(hand, job(XGB, name, restart=restart, Master=1, Worker=1), 2)
        before = uid(hand, f"{name}-worker-0")
        stage.end(f"{name}-worker-0", code)
        eventually(lambda name=name, before=before: is_another(hand, f"{name}-worker-0", before), 20)
        wait_for_conditions(hand, XGB, name, "Created", "Running")


@pytest.mark.parametrize(
    "ttl",
    [
        pytest.param(
            None, marks=differs("TO-192", "D5", "PyTorchJob, ExitCode: a permanent code gives a completion time")
        ),
        pytest.param(2, marks=differs("TO-193", "D5", "PyTorchJob, ExitCode: and so the job is deleted at its time")),
    ],
)
def test_a_permanent_exit_code(hand: Hand, stage: Stage, ttl: int | None):
    policy = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    create_running(hand, job(PT, "a", restart="ExitCode", policy=policy, Master=1, Worker=1), 2)
    stage.end("a-worker-0", 1)
    failed = wait_for_conditions(hand, PT, "a", *FAILED)["Failed"]
    assert failed["message"].startswith('job "a" is failing because "Worker" replica(s) failed. worker-0 ')
    assert status(hand, PT, "a")["completionTime"]
    if ttl is not None:
        eventually(lambda: hand.job(PT, "a") is None)


@same("TO-194", "MPIJob: the launcher succeeded: so has the job; workers count as nothing then")
def test_a_launcher_succeeds(hand: Hand, stage: Stage):
    create_running(hand, job(MPI, "m", Launcher=1, Worker=2), 3)
    stage.end("m-launcher", 0)
    succeeded = wait_for_conditions(hand, MPI, "m", *SUCCEEDED)["Succeeded"]
    assert succeeded["message"] == "MPIJob m is successfully completed."
    counts = replica_statuses(hand, MPI, "m")
    assert counts["Launcher"]["succeeded"] == 1
    assert not {"active", "succeeded", "failed"} & counts["Worker"].keys()


@differs("TO-195", "D14", "MPIJob: the launcher failed: so has the job, and the reason is MPIJobFailed")
def test_a_launcher_fails(hand: Hand, stage: Stage):
    create_running(hand, job(MPI, "m", Launcher=1, Worker=2), 3)
    stage.end("m-launcher", 1)
    assert wait_for_conditions(hand, MPI, "m", *FAILED)["Failed"]["reason"] == "MPIJobFailed"
    assert replica_statuses(hand, MPI, "m")["Launcher"]["failed"] == 1


@differs("TO-196", "D14", "MPIJob: while 8 workers are pending there is no launcher, and the job does not run")
def test_a_launcher_waits(hand: Hand, stage: Stage):
    stage.script = lambda name: "" if "worker" in name else "Running"
    create_with_pods(hand, job(MPI, "m", Launcher=1, Worker=8), 8)
    always(lambda: "m-launcher" not in names(hand.pods()) and "Running" not in condition_types(hand, MPI, "m"))
    assert not replica_statuses(hand, MPI, "m").get("Worker", {}).get("active")


@same("TO-197", "MPIJob: launcher and 8 workers run: 1 and 8 are active")
def test_all_run(hand: Hand, stage: Stage):
    create_running(hand, job(MPI, "m", Launcher=1, Worker=8), 9)
    assert {role: count["active"] for role, count in replica_statuses(hand, MPI, "m").items()} == {
        "Launcher": 1,
        "Worker": 8,
    }
    assert condition_types(hand, MPI, "m") == ["Created", "Running"]


@same("TO-198", "MPIJob: 16 workers run and the launcher is pending: the job does not run yet")
def test_a_launcher_is_pending(hand: Hand, stage: Stage):
    stage.script = lambda name: "" if "launcher" in name else "Running"
    hand.create(job(MPI, "m", Launcher=1, Worker=16))
    eventually(lambda: "m-launcher" in names(hand.pods()))
    eventually(lambda: replica_statuses(hand, MPI, "m").get("Worker", {}).get("active") == 16)
    assert not replica_statuses(hand, MPI, "m")["Launcher"].get("active")
    assert "Running" not in condition_types(hand, MPI, "m")


@differs("TO-199", "D14", "MPIJob, ExitCode: a launcher that was killed is made again")
def test_a_launcher_is_tried_again(hand: Hand, stage: Stage):
    create_running(hand, job(MPI, "m", restart="ExitCode", Launcher=1, Worker=2), 3)
    before = uid(hand, "m-launcher")
    stage.end("m-launcher", 137)
    eventually(lambda: is_another(hand, "m-launcher", before))
    wait_for_conditions(hand, MPI, "m", "Created", "Running")


@same("TO-200", "JAXJob: both workers succeeded, so has the job")
def test_a_jax_job_succeeds(hand: Hand, stage: Stage):
    create_running(hand, job(JX, "a", Worker=2), 2)
    end_pods(stage, {"a-worker-0": 0, "a-worker-1": 0})
    succeeded = wait_for_conditions(hand, JX, "a", *SUCCEEDED)["Succeeded"]
    assert succeeded["message"] == f"JAXJob {hand.namespace}/a successfully completed."
