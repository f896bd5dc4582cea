"""The value types of a parsed job."""

from __future__ import annotations

import tracemalloc

import pytest

from support.builders import a_job
from trainshed.api.job import Replica, RestartPolicy
from trainshed.frameworks.tensorflow import TFJobOptions


def test_a_jobs_members_stand_in_the_order_of_its_roles():
    job = a_job(worker=2, ps=1)
    assert tuple(job.all_replicas) == (Replica("PS", 0), Replica("Worker", 0), Replica("Worker", 1))
    assert job.size == 3
    assert [str(replica) for replica in job.all_replicas] == ["ps-0", "worker-0", "worker-1"]


def test_a_role_of_no_replicas_has_no_members():
    assert tuple(a_job(chief=1, worker=0).all_replicas) == (Replica("Chief", 0),)
    assert a_job(worker=0).size == 0


def test_a_role_that_the_job_lacks_is_none():
    assert a_job(worker=1).of("PS") is None
    assert a_job(worker=1).of("Worker").count == 1


def test_a_role_that_the_job_lacks_is_found_at_the_usual_port():
    assert (a_job(worker=1).port("Worker", 80), a_job(worker=1).port("PS", 80)) == (2222, 80)


@pytest.mark.parametrize(
    ("policy", "expected"), [("Always", True), ("OnFailure", True), ("Never", False), ("ExitCode", False)]
)
def test_the_kubelet_restarts_in_place_under_two_policies(policy, expected):
    assert RestartPolicy(policy).restarts_in_place is expected


def test_the_members_of_a_huge_job_are_made_one_by_one():
    job = a_job(worker=100_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in job.all_replicas) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_job_whose_spec_could_not_be_read_has_the_default_options():
    options = TFJobOptions(dynamic_workers=True)
    assert a_job(worker=1, options=options).options_as(TFJobOptions) is options
    assert a_job(worker=1).options_as(TFJobOptions) == TFJobOptions()
