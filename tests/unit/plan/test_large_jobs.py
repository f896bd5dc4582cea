"""The time of a plan grows with the pods of a job, not with the number of replicas that its spec requests."""

from __future__ import annotations

from time import process_time

import pytest

from support.builders import a_job, a_pod, a_service, at, replace, running, seen
from trainshed.api.actions import CreatePod, CreateService, LostPod
from trainshed.api.framework import JobDefaults
from trainshed.api.indexes import Indexes
from trainshed.api.status import ReplicaStatus
from trainshed.plan import plan

FEW, MANY = 1_000, 99_000
REFUSED = ("QuotaExceeded", "exceeded quota")
MASTER = a_pod("master-0", container="pytorch")


def bare(job, *pods, **fields):
    """Return a snapshot of a job without Services."""
    return seen(job, *pods, services=(), **fields)


def pytorch(workers, **fields):
    return a_job("PyTorchJob", master=1, worker=workers, **fields)


def forged(workers):
    """Return a job whose status says that all its workers ran."""
    job = pytorch(workers)
    status = running(pytorch(1))
    counts = {**status.replica_statuses, "Worker": ReplicaStatus(active=workers, done=Indexes(((0, workers // 2),)))}
    return bare(job, MASTER, status=replace(status, replica_statuses=counts))


CASES = {
    "new": lambda count: bare(a_job("JAXJob", worker=count)),
    "refused": lambda count: bare(a_job("PaddleJob", worker=count), refusal=REFUSED),
    "its workers wait for the master": lambda count: bare(pytorch(count), a_pod("master-0", "Pending")),
    "invalid": lambda count: bare(a_job(worker=count, problems=("spec: Invalid value",))),
    "suspended": lambda count: bare(replace(pytorch(count), policy=replace(pytorch(1).policy, suspend=True))),
    "one pod was lost": lambda count: replace(
        seen(pytorch(count), MASTER, services=(a_service("worker-3"),)),
        lost_pods=(LostPod("mnist-worker-7", 3, at(0)),),
    ),
    "a pod has failed": lambda count: bare(pytorch(count), replace(MASTER, phase="Failed")),
    "its status is forged": forged,
    "in a gang": lambda count: bare(pytorch(count), job_defaults=JobDefaults(gang_scheduler="volcano")),
    "a pod left of more replicas": lambda count: bare(pytorch(count), a_pod(f"worker-{count}", attempt=1)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_plan_takes_as_long_for_a_hundred_thousand_replicas_without_pods_as_for_a_thousand(case):
    few, many = case(FEW), case(MANY)
    for _ in range(3):  # other processes may disturb one measurement
        if shortest(many) < 4 * shortest(few) + 0.002:
            return
    pytest.fail(f"{shortest(many) * 1000:.0f} ms, and {shortest(few) * 1000:.0f} ms for a hundredth of the replicas")


def shortest(snapshot):
    """Return the processor time in seconds of the fastest of three plans."""
    times = []
    for _ in range(3):
        began = process_time()
        plan(snapshot)
        times.append(process_time() - began)
    return min(times)


@pytest.mark.parametrize(
    ("size", "there", "created"), [(60_000, 0, 200), (60_000, 300, 300), (60_000, 3_500, 3_000), (3_000, 1_000, 200)]
)
def test_a_plan_creates_a_twentieth_of_a_large_job_but_not_more_than_the_pods_that_it_has(size, there, created):
    pods = [a_pod(f"worker-{index}", container="paddle") for index in range(there)]
    planned = plan(seen(a_job("PaddleJob", worker=size), *pods, services=()))
    assert sum(isinstance(action, CreatePod) for action in planned.actions) == created
    assert sum(isinstance(action, CreateService) for action in planned.actions) == created
