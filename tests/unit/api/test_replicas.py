"""Sets of replicas, and the replicas of pods by their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import a_job
from trainshed.api.framework import child_name
from trainshed.api.indexes import Indexes
from trainshed.api.job import Replica
from trainshed.api.replicas import NONE, Replicas, others, replicas_by_name

MPI = a_job("MPIJob", launcher=1, worker=3)
LARGE = a_job("MPIJob", launcher=1, worker=99_999)
OTHERS = [
    "mnist-worker",
    "mnist-worker-03",
    "mnist-worker-99999",
    "mnist-worker-²",
    "mnist-launcher-0",
    "worker-1",
    "",
]


@pytest.mark.parametrize("job", [MPI, LARGE])
def test_a_replica_is_found_by_the_name_of_its_pod_and_by_no_other(job):
    names = ["mnist-worker-1", *OTHERS, "mnist-launcher", "mnist-worker-2"]
    found = {"mnist-worker-1": Replica("Worker", 1), "mnist-launcher": Replica("Launcher", 0)}
    assert replicas_by_name(job, names) == {**found, "mnist-worker-2": Replica("Worker", 2)}


def test_a_name_that_two_pods_have_stands_for_one_replica():
    names = ["mnist-worker-1", "mnist-worker-1", "mnist-worker-2", "mnist-launcher"]
    assert sorted(replicas_by_name(MPI, names)) == ["mnist-launcher", "mnist-worker-1", "mnist-worker-2"]


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 20)))
def test_the_others_are_those_of_the_job_that_are_not_named(there, done):
    job = a_job(ps=3, worker=10)
    every = list(job.all_replicas)
    known = [every[number] for number in sorted(there)]
    rest = others(job, known)
    assert list(rest) == [replica for replica in every if replica not in known]
    assert [replica for replica in every if replica in rest] == list(rest)
    left = rest.without({"Worker": Indexes.of(done)})
    assert list(left) == [replica for replica in rest if replica.role != "Worker" or replica.index not in done]
    assert list(left.only({"Worker"})) == [replica for replica in left if replica.role == "Worker"]
    assert left.roles == tuple(dict.fromkeys(replica.role for replica in left))
    assert bool(left) == (len(left) > 0) == (left != NONE)


def test_the_pods_of_all_replicas_are_found():
    names = [child_name(LARGE, replica) for replica in LARGE.all_replicas]
    assert list(replicas_by_name(LARGE, names).values()) == list(LARGE.all_replicas)
    assert replicas_by_name(LARGE, []) == {}
    assert Replicas().of("Worker") == Indexes()
