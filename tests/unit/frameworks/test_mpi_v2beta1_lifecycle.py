"""When an MPIJob of v2beta1 runs and finishes, and which of its pods are deleted."""

from __future__ import annotations

import pytest

from support.builders import at, deleted, made, message, services, states
from support.mpi_v2beta1_jobs import a_run, launcher, plan_for, spec_of, worker
from trainshed.api.actions import CreateDependent, CreatePod, CreateService, CreateSshSecret, DeleteService
from trainshed.api.job import RestartScope
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1


def test_it_runs_when_the_launcher_and_all_workers_run():
    job = a_run()
    assert states(plan_for(job, launcher(), worker(0), worker(1, "Pending")).status) == ["Created"]
    assert states(plan_for(job, launcher("Pending"), worker(0), worker(1)).status) == ["Created"]
    running = plan_for(job, launcher(), worker(0), worker(1)).status
    assert states(running) == ["Created", "Running"]
    assert message(running, "Running") == "MPIJob ml/m is running."
    assert states(plan_for(a_run(None), launcher()).status) == ["Created", "Running"]


def test_the_launchers_success_is_the_jobs():
    decision = plan_for(a_run(), launcher("Succeeded"), worker(0), worker(1), now=at(61))
    assert states(decision.status) == ["Created", "Succeeded"]
    assert message(decision.status, "Succeeded") == "MPIJob ml/m successfully completed."


def test_a_success_without_all_workers_is_none():
    early = worker(0, "Succeeded", code=0, ended=30.0)
    assert states(plan_for(a_run(), launcher("Succeeded"), early, worker(1), now=at(61)).status) == [
        "Created",
        "Failed",
    ]


def test_an_evicted_worker_brings_a_new_try_of_all_with_new_pods_and_the_same_keys():
    job = a_run()
    decision = plan_for(job, launcher(), worker(0, deleting=True), worker(1), now=at(30))
    assert states(decision.status) == ["Created", "Restarting"]
    assert deleted(decision) == ["m-launcher", "m-worker-1"]
    again = plan_for(job, status=decision.status, now=at(31))
    assert made(again) == ["m-launcher", "m-worker-0", "m-worker-1"]
    assert [action.name for action in again.actions if isinstance(action, CreateSshSecret)] == [
        MPI_V2BETA1.hooks.ssh_secret_name(job)
    ]


def test_a_launcher_that_fails_again_and_again_fails_the_job():
    job = a_run(policy={"backoffLimit": 2})
    workers = [worker(0), worker(1)]
    assert states(plan_for(job, launcher(restarted=1), *workers).status) == ["Created", "Running"]
    assert states(plan_for(job, launcher(restarted=2), *workers).status) == ["Created", "Failed"]


def test_with_elastic_horovod_one_worker_may_be_lost():
    command = {"command": ["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"]}
    job = a_run(launcher=spec_of(command))
    assert MPI_V2BETA1.hooks.scope(job) is RestartScope.REPLICA
    decision = plan_for(job, launcher(), worker(0, deleting=True), worker(1), now=at(30))
    assert deleted(decision) == []
    assert "Failed" not in states(decision.status)


@pytest.mark.parametrize(
    ("policy", "gone", "without_service"),
    [("None", [], False), ("Running", ["m-worker-0"], True), ("All", ["m-worker-0", "m-worker-1"], True)],
)
def test_a_launcher_that_is_over_stays_to_be_read(policy, gone, without_service):
    job = a_run(policy={"cleanPodPolicy": policy})
    pods = [launcher("Succeeded"), worker(0), worker(1, "Succeeded", code=0, ended=62.0)]
    over = plan_for(job, *pods, now=at(63)).status
    decision = plan_for(job, *pods, status=over, now=at(64))
    assert deleted(decision) == gone
    assert (services(decision, DeleteService) == ["m"]) is without_service


def test_a_launcher_that_still_runs_ends_with_the_job():
    job = a_run(policy={"activeDeadlineSeconds": 10})
    pods = [launcher(), worker(0), worker(1)]
    status = plan_for(job, *pods).status
    over = plan_for(job, *pods, status=status, now=at(11)).status
    assert states(over)[-1] == "Failed"
    assert deleted(plan_for(job, *pods, status=over, now=at(12))) == ["m-launcher", "m-worker-0", "m-worker-1"]


def test_a_suspended_job_has_nothing_and_a_resumed_one_the_keys_it_had():
    job = a_run(policy={"suspend": True})
    decision = plan_for(job, launcher(), worker(0), worker(1))
    assert deleted(decision) == ["m-launcher", "m-worker-0", "m-worker-1"]
    assert services(decision, DeleteService) == ["m"]
    resumed = plan_for(a_run(), status=plan_for(job, status=decision.status).status, services=False, now=at(60))
    again = plan_for(a_run(), status=resumed.status, services=False, now=at(60))
    assert [type(action) for action in again.actions] == [
        CreateDependent,
        CreateSshSecret,
        CreateService,
        CreatePod,
        CreatePod,
        CreatePod,
    ]
