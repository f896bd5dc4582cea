"""A sidecar that reports after the end of the training may finish before its pod is deleted, for a while."""

from __future__ import annotations

import pytest

from support import reported
from support.builders import (
    FRAMEWORKS,
    DeleteService,
    a_job,
    a_pod,
    at,
    deleted,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    seen,
    services,
    states,
)
from trainshed.api import parse
from trainshed.api.actions import DeleteJob
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import Container
from trainshed.plan.facts import Facts
from trainshed.plan.pods import end_deadline, ending_pods

DONE = Container("tensorflow", exit_code=0, reason="Completed", started=at(0), finished=at(5))
COLLECTOR = Container("collector", started=at(0))
NATIVE = replace(COLLECTOR, init=True, sidecar=True)
SETUP = Container("setup", init=True, started=at(0))
KILLED = Container("tensorflow", exit_code=137, started=at(0), finished=at(5))


def pod(*containers, replica="worker-0", **fields):
    return a_pod(replica, containers=containers, node="node-0", **fields)


def over(job, *pods):
    """The status of a job that is over 6 s after its start."""
    status = plan_for(job, *pods, status=running(job), now=at(6)).status
    assert status.over
    return status


def deletes_job(decision) -> bool:
    return any(isinstance(action, DeleteJob) for action in decision.actions)


CLEANING = pytest.mark.parametrize("clean", ["Running", "All"])


@pytest.mark.parametrize("grace", [30, 5])
@pytest.mark.parametrize("sidecar", [COLLECTOR, NATIVE])
@CLEANING
def test_the_pod_of_a_succeeded_replica_is_deleted_when_it_has_ended_or_after_its_time(clean, sidecar, grace):
    job = a_job(worker=1, policy=run_policy(clean=clean), pod_end_grace=grace)
    reports = pod(DONE, sidecar)
    status = over(job, reports)
    first = plan_for(job, reports, status=status, now=at(6))
    assert (deleted(first), services(first, DeleteService), first.requeue_at) == ([], [], at(6 + grace))
    assert deleted(plan_for(job, reports, status=status, now=at(5.9 + grace))) == []
    left_to_kubelet = clean == "Running" and sidecar.sidecar
    assert deleted(plan_for(job, reports, status=status, now=at(6 + grace))) == (
        [] if left_to_kubelet else ["mnist-worker-0"]
    )
    ended = replace(reports, phase="Succeeded", containers=(DONE, replace(sidecar, exit_code=0, finished=at(8))))
    assert deleted(plan_for(job, ended, status=status, now=at(9))) == (["mnist-worker-0"] if clean == "All" else [])


@pytest.mark.parametrize("containers", [(DONE,), (SETUP, DONE)])
def test_a_pod_without_a_sidecar_is_deleted_at_once(containers):
    job, ends = a_job(worker=1, policy=run_policy(clean="All")), pod(*containers)
    assert deleted(plan_for(job, ends, status=over(job, ends), now=at(6))) == ["mnist-worker-0"]


@CLEANING
def test_pods_that_train_go_at_once_and_so_do_failed_ones(clean):
    job = a_job(chief=1, worker=2, policy=run_policy(clean=clean))
    trains = [pod(replace(DONE, exit_code=None), COLLECTOR, replica=f"worker-{index}") for index in range(2)]
    chief = pod(DONE, COLLECTOR, replica="chief-0")
    decision = plan_for(job, chief, *trains, status=over(job, chief, *trains), now=at(6))
    assert deleted(decision) == ["mnist-worker-0", "mnist-worker-1"]
    failed = a_job(worker=1, policy=run_policy(clean=clean))
    lost = pod(KILLED, COLLECTOR)
    assert deleted(plan_for(failed, lost, status=over(failed, lost), now=at(6))) == ["mnist-worker-0"]


@pytest.mark.parametrize("ttl", [0, 1, 60])
@pytest.mark.parametrize("clean", ["None", "Running", "All"])
def test_the_job_is_deleted_after_its_ttl_and_not_before_its_sidecars_have_ended(clean, ttl):
    job = a_job(worker=1, policy=run_policy(clean=clean, ttl=ttl))
    reports = pod(DONE, COLLECTOR)
    status = over(job, reports)
    now = plan_for(job, reports, status=status, now=at(7))
    assert not deletes_job(now)
    assert now.requeue_at == at(36)
    assert deletes_job(plan_for(job, reports, status=status, now=at(max(36, 6 + ttl))))
    ended = replace(reports, phase="Succeeded")
    assert deletes_job(plan_for(job, ended, status=status, now=at(6 + ttl)))


def test_a_job_that_trains_no_longer_is_deleted_by_its_ttl_though_others_train():
    job = a_job(chief=1, worker=1, policy=run_policy(ttl=0))
    pods = (a_pod("chief-0", "Succeeded", code=0), pod(replace(DONE, exit_code=None), COLLECTOR))
    assert deletes_job(plan_for(job, *pods, status=over(job, *pods), now=at(6)))


def test_at_a_limit_too_a_succeeded_replica_may_report():
    job = a_job("PyTorchJob", worker=2, policy=run_policy(deadline=60))
    own = replace(DONE, name="pytorch")
    pods = pods_of(job, pod(own, COLLECTOR))
    status = plan_for(job, *pods, status=running(job), now=at(61)).status
    assert status.limit_exceeded
    assert deleted(plan_for(job, *pods, status=status, now=at(61))) == ["mnist-worker-1"]


@CLEANING
def test_a_job_of_a_queue_ends_after_its_sidecars_and_when_it_is_suspended_at_once(clean):
    job = a_job(worker=1, queued=True, policy=run_policy(clean=clean))
    reports = pod(DONE, COLLECTOR)
    ending = plan_for(job, reports, status=running(job), now=at(6)).status
    assert states(ending)[-1] == "SuccessCriteriaMet"
    early = plan_for(job, reports, status=ending, now=at(7))
    assert (deleted(early), early.requeue_at) == ([], at(36))
    assert deleted(plan_for(job, reports, status=ending, now=at(36))) == ["mnist-worker-0"]
    suspended = replace(job, policy=run_policy(clean=clean, suspend=True))
    assert deleted(plan_for(suspended, reports, status=ending, now=at(7))) == ["mnist-worker-0"]
    left = replace(reports, phase="Succeeded")
    assert states(plan_for(job, left, status=ending, now=at(8)).status)[-1] == "Succeeded"


def test_nothing_is_waited_for_before_the_end_is_decided_or_once_the_pod_is_deleted():
    job = a_job(worker=2)
    facts = a_facts(job, pod(DONE, COLLECTOR))
    assert (end_deadline(facts), ending_pods(facts)) == (None, ())
    status = over(a_job(worker=1), pod(DONE, COLLECTOR))
    assert ending_pods(a_facts(a_job(worker=1), pod(DONE, COLLECTOR, deleting=True), status=status)) == ()


def a_facts(job, *pods, **fields):
    return Facts(seen(job, *pods, **fields))


@pytest.mark.reported("09-collector-sidecar")
@pytest.mark.parametrize(
    "policy", [{"cleanPodPolicy": "Running"}, {"cleanPodPolicy": "All"}, {"ttlSecondsAfterFinished": 0}]
)
def test_the_reported_collector_may_report(policy):
    document = reported.job("09-collector-sidecar")
    document["spec"]["runPolicy"] = policy
    job = parse.job(document, FRAMEWORKS["PyTorchJob"], JobDefaults())
    master = a_pod("master-0", job="trial", containers=(replace(DONE, name="pytorch"), COLLECTOR))
    status = plan_for(job, master, status=running(job), now=at(6)).status
    assert states(status)[-1] == "Succeeded", "the verdict comes with the end of the framework's container"
    for seconds in (6.2, 7, 35.9):
        assert plan_for(job, master, status=status, now=at(seconds)).actions == ()
    gone = plan_for(job, master, status=status, now=at(36))
    assert deleted(gone) == ["trial-master-0"] or deletes_job(gone)
