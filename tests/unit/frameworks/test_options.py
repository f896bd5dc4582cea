"""The options of each kind, parsed from its spec."""

from __future__ import annotations

import pytest

from support.jobs import job, pytorchjob
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks.jax import JAX
from trainshed.frameworks.mpi import MPI, MPIJobOptions
from trainshed.frameworks.paddle import PADDLE
from trainshed.frameworks.pytorch import PYTORCH


def pytorch(document):
    return parse.job(document, PYTORCH, JobDefaults())


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        ({}, (2, 2)),
        ({"minReplicas": 1}, (1, 1)),
        ({"maxReplicas": 3}, (3, 3)),
        ({"minReplicas": 1, "maxReplicas": 3}, (1, 3)),
    ],
)
def test_elastic_bounds_fill_each_other_in(policy, bounds):
    document = pytorchjob("a", Worker=2)
    document["spec"]["elasticPolicy"] = policy
    elastic = pytorch(document).options.elastic
    assert (elastic.minimum, elastic.maximum) == bounds


def test_processes_per_node_are_automatic_unless_either_field_says_otherwise():
    document = pytorchjob("a", Worker=2)
    assert pytorch(document).options.nproc_per_node == "auto"
    document["spec"]["elasticPolicy"] = {"nProcPerNode": 2, "rdzvConf": [{"key": "a", "value": "b"}]}
    options = pytorch(document).options
    assert (options.nproc_per_node, options.elastic.nproc_per_node) == (None, 2)
    assert options.elastic.rdzv_conf == (("a", "b"),)
    document["spec"] = document["spec"] | {"nprocPerNode": "4", "elasticPolicy": {}}
    assert pytorch(document).options.nproc_per_node == "4"


@pytest.mark.parametrize("policy", [{}, {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 2, "metrics": []}])
@pytest.mark.parametrize("roles", [{"Master": 1}, {"Worker": 2}, {"Master": 1, "Worker": 2}])
def test_paddles_elasticity_is_accepted_and_changes_nothing(policy, roles):
    document = job("PaddleJob", "a", **roles)
    document["spec"]["elasticPolicy"] = policy
    found = parse.job(document, PADDLE, JobDefaults())
    assert (found.problems, found.options) == ((), None)


def test_a_kind_without_options_has_none():
    assert parse.job(job("JAXJob", "a", Worker=2), JAX, JobDefaults()).options is None


def test_an_mpijob_has_one_slot_for_each_worker_unless_the_spec_sets_more():
    document = job("MPIJob", "a", Launcher=1, Worker=2)
    assert parse.job(document, MPI, JobDefaults()).options == MPIJobOptions(slots=1, main_container="")
    document["spec"] |= {"slotsPerWorker": 4, "mainContainer": "main"}
    assert parse.job(document, MPI, JobDefaults()).options == MPIJobOptions(slots=4, main_container="main")


@pytest.mark.parametrize(("run_policy", "expected"), [({}, "All"), ({"cleanPodPolicy": "Running"}, "Running")])
def test_the_older_clean_pod_policy_of_an_mpijob_holds_if_the_run_policy_has_none(run_policy, expected):
    document = job("MPIJob", "a", Launcher=1, Worker=2)
    document["spec"] |= {"cleanPodPolicy": "All", "runPolicy": run_policy}
    assert parse.job(document, MPI, JobDefaults()).policy.clean_pods == expected
