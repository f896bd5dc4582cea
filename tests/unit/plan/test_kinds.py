"""Each kind from creation to completion: the replicas that define success, and v1's messages."""

from __future__ import annotations

import pytest

from support import jobs
from support.builders import FRAMEWORKS, a_job, a_pod, at, deleted, made, message, plan_for, pods_of, running, states
from trainshed.api import parse
from trainshed.api.actions import Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import ALL_VERSIONS
from trainshed.plan import plan

#: kind, roles, who decides, and how v1 calls the job.
KINDS = [
    ("TFJob", {"chief": 1, "worker": 2}, ["chief-0"], "ml/mnist"),
    ("TFJob", {"worker": 2}, ["worker-0"], "ml/mnist"),
    ("PyTorchJob", {"master": 1, "worker": 2}, ["master-0"], "mnist"),
    ("PyTorchJob", {"worker": 2}, ["worker-0", "worker-1"], "ml/mnist"),
    ("XGBoostJob", {"master": 1, "worker": 2}, ["master-0"], "mnist"),
    ("PaddleJob", {"master": 1, "worker": 2}, ["master-0"], "mnist"),
    ("PaddleJob", {"worker": 2}, ["worker-0", "worker-1"], "ml/mnist"),
    ("JAXJob", {"worker": 2}, ["worker-0", "worker-1"], "ml/mnist"),
]
every_kind = pytest.mark.parametrize(("kind", "roles", "decide", "name"), KINDS)


def pod(job, replica, phase, code):
    """Return the pod of a replica, with the container of the job's kind."""
    return a_pod(replica, phase, code=code, container=FRAMEWORKS[job.kind].container)


@every_kind
def test_a_job_runs_and_succeeds_with_those_who_decide(kind, roles, decide, name):
    job = a_job(kind, **roles)
    before = running(job)
    assert message(before, "Running") == f"{kind} {name} is running."
    done = [pod(job, replica, "Succeeded", 0) for replica in decide]
    assert "Succeeded" not in states(plan_for(job, *pods_of(job, *done[1:]), status=before).status)
    after = plan_for(job, *pods_of(job, *done), status=before).status
    assert states(after)[-1] == "Succeeded"
    verb = "is successfully completed" if name == "mnist" else "successfully completed"
    assert message(after, "Succeeded") == f"{kind} {name} {verb}."


@every_kind
def test_a_replica_that_fails_and_may_not_be_tried_again_fails_the_job(kind, roles, decide, name):
    job = a_job(kind, restart="Never", **roles)
    after = plan_for(job, *pods_of(job, pod(job, "worker-1", "Failed", 1)), status=running(job), now=at(3)).status
    words = "ml/mnist has failed" if kind == "TFJob" else "mnist is failed"
    assert message(after, "Failed").startswith(f"{kind} {words} because 1 Worker replica(s) failed. worker-1 exited")


@every_kind
def test_selectors_are_for_kinds_that_scale(kind, roles, decide, name):
    replica_status = running(a_job(kind, **roles)).replica_statuses["Worker"]
    labels = f"training.kubeflow.org/job-name=mnist,training.kubeflow.org/operator-name={kind.lower()}-controller"
    scales = kind in ("PyTorchJob", "PaddleJob", "JAXJob")
    assert replica_status.selector == (f"{labels},training.kubeflow.org/replica-type=worker" if scales else "")


@pytest.mark.parametrize(("ready", "workers"), [(False, []), (True, ["mnist-worker-0", "mnist-worker-1"])])
def test_workers_of_an_xgboostjob_are_made_when_its_master_is_ready(ready, workers):
    job = a_job("XGBoostJob", master=1, worker=2)
    assert made(plan_for(job)) == ["mnist-master-0"]
    assert made(plan_for(job, a_pod("master-0", container="xgboost", ready=ready))) == workers


@pytest.mark.parametrize(("kind", "roles"), [("XGBoostJob", {"master": 1, "worker": 2}), ("JAXJob", {"worker": 2})])
def test_a_group_that_lost_a_member_starts_again_as_a_whole(kind, roles):
    job = a_job(kind, restart="ExitCode", **roles)
    decision = plan_for(job, *pods_of(job, pod(job, "worker-1", "Failed", 137)), status=running(job))
    assert states(decision.status)[-1] == "Restarting"
    assert sorted(deleted(decision)) == sorted(f"mnist-{replica}" for replica in job.all_replicas)


@pytest.mark.parametrize(
    "containers",
    [5, {"a": 1}, [3], [{"command": 5}], [{"args": {"a": 1}}], [{"resources": 3}], [{"resources": {"limits": 3}}]],
)
@pytest.mark.parametrize("framework", ALL_VERSIONS.values(), ids=lambda framework: framework.api_version[-2:])
def test_a_started_job_is_suspended_whatever_another_crd_has_accepted_as_containers(framework, containers):
    document = jobs.smallest(framework.kind, "mnist", policy={"suspend": True})
    for role in jobs.KINDS[framework.kind].least:
        jobs.pod_spec(document, role)["containers"] = containers
    document["metadata"] |= {"uid": "job-uid", "namespace": "ml", "generation": 1, "resourceVersion": "1"}
    job = parse.job(document, framework, JobDefaults())
    worker = a_pod("worker-0")
    snapshot = Snapshot(job, framework, JobDefaults(), running(a_job(worker=1)), (worker,), (), at(5))
    assert deleted(plan(snapshot)) == [worker.name]
