"""The start order of roles, and when it yields."""

from __future__ import annotations

import pytest

from support import reported
from support.builders import FRAMEWORKS, a_job, a_pod, at, made, message, plan_for, replace, seen
from trainshed.api import parse
from trainshed.api.actions import LostPod
from trainshed.api.coerce import EARLIEST
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import Container, TerminatedState
from trainshed.api.status import ConditionType, Waiting
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.plan import plan
from trainshed.plan.facts import Facts
from trainshed.plan.start_order import gated_replicas

JOB = a_job("XGBoostJob", master=1, worker=2)
WORKERS = ["worker-0", "worker-1"]
#: As of containerd, which gives 1970 as the start of a command that it cannot find.
NEVER_BEGAN = TerminatedState(128, EARLIEST, at(5), "StartError")


def waiting(*pods, job=JOB, **fields):
    return [str(replica) for replica in sorted(gated_replicas(Facts(seen(job, *pods, **fields))))]


def master(phase="Pending", **fields):
    return a_pod("master-0", phase, **{"container": "xgboost", "created": at(0), **fields})


def container(**fields):
    return Container("xgboost", **fields)


def test_the_workers_of_an_xgboost_job_wait_until_their_master_is_ready():
    assert waiting() == WORKERS
    assert waiting(master("Running")) == WORKERS
    assert waiting(master("Running", ready=True)) == []


def test_nobody_waits_for_one_who_has_ended():
    assert waiting(master("Failed", code=1)) == []


def test_with_a_gang_scheduler_nobody_waits():
    assert waiting(job_defaults=JobDefaults(gang_scheduler="volcano")) == []


#: How a template makes its pods members of a gang, and whether it does.
MARKS = [
    ({"labels": {"scheduling.x-k8s.io/pod-group": "ring"}}, {}, True),
    ({"labels": {"pod-group.scheduling.sigs.k8s.io": "ring"}}, {}, True),
    ({"labels": {"pod-group.scheduling.sigs.k8s.io/name": "ring"}}, {}, True),
    ({"annotations": {"gang.scheduling.koordinator.sh/name": "ring"}}, {}, True),
    ({"annotations": {"scheduling.k8s.io/group-name": "ring"}}, {}, True),
    ({"annotations": {"scheduling.volcano.sh/group-min-member": "3"}}, {}, True),
    ({"annotations": {"volcano.sh/task-spec": "worker"}}, {}, True),
    ({"annotations": {"pod-group-name": "ring"}}, {}, True),
    ({"labels": {"kai.scheduler/queue": "team"}}, {}, True),
    ({"labels": {"runai/queue": "team"}}, {}, True),
    ({"annotations": {"yunikorn.apache.org/task-group-name": "ring"}}, {}, True),
    ({"annotations": {"godel.bytedance.com/pod-group-name": "ring"}}, {}, True),
    ({"labels": {"kueue.x-k8s.io/pod-group-name": "ring"}}, {}, True),
    ({}, {"schedulingGroup": {"podGroupName": "ring"}}, True),
    ({}, {"workloadRef": {"name": "ring"}}, True),
    ({}, {"schedulerName": "kai-scheduler"}, True),
    ({"labels": {"app": "ring", "kueue.x-k8s.io/queue-name": "team"}}, {}, False),
    ({"annotations": {"sidecar.istio.io/inject": "false"}}, {"schedulerName": "another"}, False),
    ({"labels": None}, {"schedulingGroup": None}, False),
]


@pytest.mark.parametrize(("metadata", "spec", "marked"), MARKS)
def test_the_order_yields_to_a_gang_that_the_user_has_made(metadata, spec, marked):
    containers = {"containers": [{"name": "xgboost", "image": "x"}]}
    job = a_job("XGBoostJob", master=1, worker=2, template={"metadata": metadata, "spec": {**containers, **spec}})
    assert waiting(job=job) == ([] if marked else WORKERS)
    assert len(made(plan_for(job))) == (3 if marked else 1)


@pytest.mark.parametrize(
    ("pod", "until"),
    [
        (master(containers=()), 30),
        (master(containers=(), unplaced="Unschedulable", unschedulable="no node has room"), 0),
        (master(containers=(), unplaced="SchedulingGated"), 0),
        (master(node="a", containers=(container(waiting=True, reason="ContainerCreating"),)), None),
        (master(node="a", containers=(container(waiting=True, reason="ErrImagePull"),)), None),
        (master(node="a", containers=(Container("init", init=True, started=at(5)), container(waiting=True))), 35),
        (
            master(
                node="a",
                containers=(Container("init", init=True, started=at(5), exit_code=0), container(waiting=True)),
            ),
            None,
        ),
        (master(node="a", containers=(Container("mesh", init=True, sidecar=True, started=at(1)), container())), None),
        (master("Running", node="a", started=20), 50),
        (master(node="a", containers=(container(waiting=True, before=NEVER_BEGAN),)), None),
        (master("Running", node="a", created=None, containers=()), None),
    ],
)
def test_the_order_yields_when_readiness_may_need_those_that_wait(pod, until):
    if until is None:
        assert waiting(pod, now=at(9999)) == WORKERS
        return
    assert waiting(pod, now=at(until)) == []
    if until:
        assert waiting(pod, now=at(until - 1)) == WORKERS
        assert plan_for(JOB, pod, now=at(until - 1)).requeue_at == at(until)
        assert "mnist-worker-0" in made(plan_for(JOB, pod, now=at(until)))


def test_the_status_says_at_once_which_replicas_are_not_created_yet():
    first = plan_for(JOB)
    expected = "XGBoostJob mnist is created. Not created yet: worker-0-1 once all Master replicas are ready."
    assert message(first.status, "Created") == expected
    entry = Waiting("Worker", "0-1", 2, "NotCreated", "created once all Master replicas are ready", at(0))
    assert (first.status.waiting, first.status.state) == ((entry,), "Created")
    image = container(waiting=True, reason="ErrImagePull", image="x")
    blocked = plan_for(JOB, master(node="a", scheduled=at(0), containers=(image,)), status=first.status, now=at(40))
    assert (blocked.status.reason, blocked.status.waiting[1:]) == ("ImagePullBackOff", (entry,))
    assert blocked.status.condition(ConditionType.BLOCKED).message.startswith(
        "1 of 3 replicas is not running: master-0"
    )
    later = plan_for(JOB, master("Running", ready=True), status=first.status)
    assert (message(later.status, "Created"), later.status.waiting) == ("XGBoostJob mnist is created.", ())
    one = a_job("XGBoostJob", master=1, worker=1)
    assert "Not created yet: worker-0 once all" in message(plan_for(one).status, "Created")


def test_a_replica_that_waits_for_the_order_is_named_once_although_others_have_deleted_its_pods():
    lost = tuple(LostPod(f"mnist-{worker}", 5, at(0)) for worker in WORKERS)
    found = plan(replace(seen(JOB, now=at(0)), lost_pods=lost)).status.waiting
    assert [(item.reason, item.count, item.message) for item in found] == [
        ("NotCreated", 2, "created once all Master replicas are ready")
    ]


@pytest.mark.reported("11-own-gang")
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_all_pods_of_a_gang_that_the_user_has_made_are_created_at_once(version):
    document = reported.job("11-own-gang") | {"apiVersion": f"kubeflow.org/{version}"}
    framework = FRAMEWORKS["MPIJob"] if version == "v1" else MPI_V2BETA1
    job = parse.job(document, framework, JobDefaults())
    snapshot = replace(seen(replace(job, kind="MPIJob"), services=()), framework=framework)
    assert made(plan(snapshot)) == ["ring-launcher", "ring-worker-0", "ring-worker-1"]
