"""The facts that the rules use."""

from __future__ import annotations

import pytest

from support.builders import (
    a_job,
    a_pod,
    at,
    deleted,
    elastic,
    made,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    seen,
    states,
)
from trainshed.api.indexes import Indexes
from trainshed.api.objects import Container
from trainshed.api.status import ReplicaStatus, Status
from trainshed.frameworks.tensorflow import TFJobOptions
from trainshed.plan.facts import Facts


def facts(job, *pods, **fields):
    return Facts(seen(job, *pods, **fields))


@pytest.mark.fault("J3")
def test_names_decide_whose_seat_a_pod_has_never_labels():
    pod = replace(a_pod("worker-0"), index=2_000_000_000, role="ps")
    asked = facts(a_job(worker=1), pod)
    assert [str(replica) for replica in asked.current] == ["worker-0"]
    assert asked.surplus == ()


@pytest.mark.parametrize(
    ("job", "done", "achieved"),
    [
        (a_job(chief=1, worker=2), ["chief-0"], True),
        (a_job(chief=2), ["chief-0"], False),
        (a_job(master=1, worker=1), ["worker-0"], False),
        (a_job(worker=2), ["worker-0"], True),
        (a_job(worker=2), ["worker-1"], False),
        (a_job(worker=2, options=TFJobOptions(success_policy="AllWorkers")), ["worker-0"], False),
        (a_job(worker=2, options=TFJobOptions(success_policy="AllWorkers")), ["worker-0", "worker-1"], True),
        (a_job(ps=1), ["ps-0"], False),
        (a_job(worker=0), [], False),
        (a_job("PyTorchJob", master=1, worker=1), ["master-0"], True),
        (a_job("PyTorchJob", worker=2), ["worker-1"], False),
        (a_job("PyTorchJob", worker=2), ["worker-0", "worker-1"], True),
        (a_job("PyTorchJob", worker=3, options=elastic()), ["worker-2"], True),
    ],
)
def test_success_is_as_the_framework_has_it(job, done, achieved):
    pods = [a_pod(replica, "Succeeded", code=0) for replica in done]
    assert facts(job, *pods_of(job, *pods)).achieved is achieved


@pytest.mark.fault("H9")
def test_a_member_that_succeeded_stays_done_when_its_pod_is_gone():
    job = a_job(chief=1, worker=3)
    status = plan_for(job, *pods_of(job, a_pod("worker-1", "Succeeded", code=0))).status
    assert status.replica_statuses["Worker"].done == Indexes.of([1])
    pods = [pod for pod in pods_of(job) if pod.name != "mnist-worker-1"]
    assert made(plan_for(job, *pods, status=status)) == []
    assert facts(job, *pods, status=status).replica_statuses["Worker"].succeeded == 1


def test_a_member_out_of_range_is_not_done():
    status = Status(replica_statuses={"Worker": ReplicaStatus(done=Indexes.of([0, 5]))})
    assert facts(a_job(chief=1, worker=2), status=status).done["Worker"] == Indexes.of([0])


def test_a_running_pod_is_active_until_it_is_gone():
    job = a_job(chief=1, worker=1)
    leaving = a_pod("worker-0", deleting=True, ready=True)
    replica_status = facts(job, leaving, a_pod("chief-0", ready=True), a_pod("worker-1")).replica_statuses
    assert (replica_status["Worker"].active, replica_status["Worker"].ready) == (2, 0)
    assert replica_status["Chief"] == ReplicaStatus(active=1, ready=1)


def test_selectors_stand_in_the_status_of_kinds_that_scale():
    assert facts(a_job("PyTorchJob", worker=1)).replica_statuses["Worker"].selector.endswith("replica-type=worker")
    assert facts(a_job(worker=1)).replica_statuses["Worker"].selector == ""


def test_counts_are_made_for_each_snapshot():
    job = a_job(worker=3)
    pods = [a_pod("worker-0", "Failed", code=1), a_pod("worker-1", "Pending"), a_pod("worker-2")]
    replica_status = facts(job, *pods).observed.replica_statuses["Worker"]
    assert (replica_status.active, replica_status.failed, replica_status.succeeded) == (1, 1, 0)


def test_a_member_whose_own_container_is_done_is_done_though_a_sidecar_runs_on():
    job = a_job(chief=1, worker=1)
    own, mesh = Container("tensorflow", exit_code=0), Container("mesh")
    seen = facts(job, a_pod("chief-0", containers=(own, mesh)), a_pod("worker-0"))
    assert seen.achieved
    assert seen.replica_statuses["Chief"] == ReplicaStatus(succeeded=1, done=Indexes.of([0]))


def test_a_leftover_of_a_smaller_job_disturbs_nobody_when_the_job_grows_again():
    job = a_job("PyTorchJob", master=1, worker=3)
    small = a_job("PyTorchJob", master=1, worker=1)
    pods = pods_of(job)
    shrinking = plan_for(small, *pods, status=running(job))
    assert sorted(deleted(shrinking)) == ["mnist-worker-1", "mnist-worker-2"]
    assert shrinking.status.scaled_down_to == {"Worker": 1}
    leaving = [replace(pod, deleting=pod.index > 0) for pod in pods]
    grown = plan_for(job, *leaving, status=shrinking.status)
    assert (states(grown.status), grown.status.attempts, made(grown)) == (["Created", "Running"], {}, [])
    one_left = plan_for(job, *leaving[:3], status=grown.status)
    assert (made(one_left), one_left.status.scaled_down_to) == ([], {"Worker": 1})
    masterless = plan_for(job, *leaving[1:2], status=replace(one_left.status, scaled_down_to={"Worker": 1}))
    assert masterless.status.failure.pod == "mnist-master-0", "no other replica may be missing"
    back = plan_for(job, *leaving[:2], status=one_left.status)
    assert made(back) == ["mnist-worker-1", "mnist-worker-2"]
    assert (back.status.attempts, back.status.scaled_down_to) == ({}, {})


@pytest.mark.fault("H10")
def test_restarts_in_place_are_counted_exactly_though_others_go_on_while_a_pod_is_replaced():
    job = a_job(restart="OnFailure", ps=1, worker=2, policy=run_policy(backoff_limit=9))
    evicted = a_pod("worker-0", "Failed", reason="Evicted", restarted=3)
    given_up = plan_for(job, *pods_of(job, evicted), status=running(job), now=at(5)).status
    assert (given_up.retries.container_restarts, given_up.retries.deleted_pod_container_restarts) == (0, 3)
    status = plan_for(job, *pods_of(job, a_pod("worker-1", restarted=2)), status=given_up, now=at(9)).status
    assert (status.retries.container_restarts, status.retries.deleted_pod_container_restarts) == (2, 3)
