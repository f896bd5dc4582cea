"""What the planner makes of failures in virtual time, and what the time of pods counts as."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from msgspec.structs import replace

from support.predictions import DAY, HOUR, MINUTE, assumed, pytorch, runs, subject
from trainshed.whatif.assumptions import RunEnding
from trainshed.whatif.prediction import estimated_cost, predictor
from trainshed.whatif.subject import Unpredictable, prepared
from trainshed.whatif.virtual_pods import VirtualPods
from trainshed.whatif.virtual_run import VirtualRun, time_at

ALWAYS = {"run_time": 5 * DAY, "mtbf": 2 * DAY, "checkpoint_every": HOUR, "restart_cost": 4 * MINUTE}


def endings(job, world, count=30) -> set[RunEnding]:
    return {run.ending for run in runs(job, world, count)}


def test_limits_of_a_job_and_fewer_failures_make_its_prediction_short():
    often, seldom = (assumed(run_time=100 * DAY, mtbf=mtbf * DAY, program_failures=0.5) for mtbf in (1, 10))
    limited = pytorch(1, policy={"backoffLimit": 3}), pytorch(1, policy={"activeDeadlineSeconds": 3 * DAY})
    costs = [estimated_cost(job, often, 100, 0) for job in (pytorch(1), *limited)]
    assert costs[0] > 10 * max(costs[1:])
    assert costs[0] > 5 * estimated_cost(pytorch(1), seldom, 100, 0)
    assert estimated_cost(limited[0], often, 100, 100) > costs[0]


@pytest.mark.parametrize(
    ("fields", "world", "ending"),
    [
        ({"restart": "Never"}, {"program_failures": 1}, RunEnding.NOT_RETRIED),
        ({"restart": "ExitCode"}, {"program_failures": 1, "exit_code": 1}, RunEnding.NOT_RETRIED),
        ({"restart": "ExitCode"}, {"program_failures": 1, "exit_code": 137}, RunEnding.SUCCEEDED),
        ({"restart": "Never"}, {"program_failures": 0}, RunEnding.SUCCEEDED),
        ({"restart": "OnFailure", "policy": {"backoffLimit": 1}}, {"program_failures": 1}, RunEnding.BACKOFF_LIMIT),
        ({"policy": {"backoffLimit": 1}}, {"program_failures": 0}, RunEnding.SUCCEEDED),
        ({"policy": {"activeDeadlineSeconds": 5 * DAY}}, {"program_failures": 0}, RunEnding.DEADLINE),
        ({"annotations": {"trainshed.dev/on-disruption": "Fail"}}, {"program_failures": 0}, RunEnding.NOT_RETRIED),
        (
            {"annotations": {"trainshed.dev/startup-deadline": "10m"}},
            {"program_failures": 0, "replace_node": HOUR},
            RunEnding.STARTUP_DEADLINE,
        ),
    ],
)
def test_the_spec_of_the_job_decides_how_it_ends(fields, world, ending):
    found = Counter(run.ending for run in runs(pytorch(4, **fields), assumed(nodes=4, **ALWAYS, **world), 8))
    assert found[ending] == 8, found


def test_a_run_that_cannot_end_is_given_up():
    (run,) = runs(pytorch(1), assumed(run_time=10 * HOUR, mtbf=HOUR), 1)
    assert run.ending is RunEnding.UNFINISHED


def test_a_kubelet_waits_longer_before_each_restart_in_a_row_and_not_after_a_while_without_one():
    pods = VirtualPods(pytorch(1, restart="OnFailure"), assumed(restart_cost=7))
    name, now, waits = "big-worker-0", 0.0, []
    pods.create(name, 0, (now, time_at(now)), 0)
    for pause in (100, 100, 100, 100, 100, 100, 100, 601, 100, 590):
        pods.move(now, time_at(now))
        now += pause
        pods.end(name, now, time_at(now))
        waits.append(pods.next_move - now - 7)
        now = pods.next_move
    assert waits == [0, 10, 20, 40, 80, 160, 300, 0, 10, 20]
    pods.remove([name])
    pods.create(name, 0, (now, time_at(now)), 0)
    pods.move(now, time_at(now))
    pods.end(name, now, time_at(now))
    assert pods.next_move - now == 7, "another pod has a back-off of its own"


def test_all_the_time_of_pods_is_counted_once():
    for run in runs(pytorch(4), assumed(nodes=4, **ALWAYS, start_up=60), 10):
        used = sum(amounts[-1] for amounts in run.used.values())
        assert used == pytest.approx(4 * run.seconds, rel=1e-4)  # during a back-off there are no pods
        assert run.used["training"][-1] == pytest.approx(4 * 5 * DAY)
        assert run.used["lostWork"][0] == pytest.approx(8 * run.used["lostWork"][-1])


def mean(job, world) -> float:
    return statistics.mean(run.seconds for run in runs(job, world, 15))


@pytest.mark.slow
def test_an_elastic_job_goes_on_without_a_worker_and_a_spare_node_takes_the_place_of_another():
    world = assumed(nodes=4, **ALWAYS, replace_node=6 * HOUR)
    policy = {"maxReplicas": 4, "rdzvBackend": "c10d"}
    rigid = mean(pytorch(4, elasticPolicy={"minReplicas": 4, **policy}), world)
    elastic = mean(pytorch(4, elasticPolicy={"minReplicas": 2, **policy}), world)
    spare = mean(pytorch(4), assumed(nodes=4, **ALWAYS, replace_node=6 * HOUR, spare_nodes=2))
    assert elastic < rigid * 0.8
    assert spare < mean(pytorch(4), world) * 0.8


def test_a_seed_draws_the_same_failures_in_one_process_and_in_two():
    job, world = pytorch(2), assumed(nodes=2, **ALWAYS)
    with predictor(3, 2) as source:
        found = source.predict(job, world, 24)
    assert found.runs == runs(job, world, 24, seed=3)
    assert found.runs != runs(job, world, 24, seed=4)


@pytest.mark.parametrize(
    ("kind", "field", "roles"),
    [
        ("TFJob", "tfReplicaSpecs", {"PS": "tensorflow", "Worker": "tensorflow", "Chief": "tensorflow"}),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": "mpi", "Worker": "mpi"}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": "jax"}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": "xgboost", "Worker": "xgboost"}),
        ("PaddleJob", "paddleReplicaSpecs", {"Worker": "paddle"}),
    ],
)
def test_jobs_of_all_kinds_come_to_their_end(kind, field, roles):
    specs = {
        role: {"replicas": 1, "template": {"spec": {"containers": [{"name": name, "image": "x"}]}}}
        for role, name in roles.items()
    }
    job = subject({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {field: specs}})
    assert endings(job, assumed(nodes=len(roles), **ALWAYS), 5) == {RunEnding.SUCCEEDED}


def test_a_suspended_job_is_run_and_one_that_nothing_ends_is_refused():
    assert endings(pytorch(1, policy={"suspend": True}), assumed(mtbf=1e12), 1) == {RunEnding.SUCCEEDED}
    with pytest.raises(Unpredictable, match="no replica whose end would be its success"):
        prepared(replace(pytorch(1).job, groups=()))


def test_the_planner_is_asked_at_events_only():
    run = VirtualRun(pytorch(2), assumed(nodes=2, **ALWAYS), 1, 1)
    failures = run.result().node_failures
    assert failures > 0
    assert run.plans < 8 * (failures + 2)
