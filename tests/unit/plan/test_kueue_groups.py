"""A job whose pods Kueue admits as a group: what its pods have, and that they live and restart together."""

from __future__ import annotations

import pytest

from support.builders import (
    a_job,
    a_pod,
    at,
    deleted,
    event_reasons,
    made,
    message,
    plan_for,
    pods_of,
    replace,
    running,
)
from trainshed.api import kueue_groups, parse
from trainshed.api.actions import CreatePod
from trainshed.api.framework import JobDefaults
from trainshed.api.job import QUEUE_LABEL, KueueForm, RestartScope
from trainshed.api.job_annotations import KUEUE
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan.waiting import GATED

LABELS = ((QUEUE_LABEL, "research"),)
JOB = a_job(restart="ExitCode", chief=1, worker=2, queue_labels=LABELS, grouped=True, scope="Job", queued=True)
ALONE = replace(JOB, grouped=False, scope=RestartScope.REPLICA)


def bodies(plan):
    return [action.body for action in plan.actions if isinstance(action, CreatePod)]


def members(job=JOB, *others, size=3, attempt=0):
    """The pods of a group of this size."""
    return [replace(pod, group_size=size) for pod in pods_of(job, *others, attempt=attempt)]


def gated(replica, **fields):
    return a_pod(replica, "Pending", unplaced=GATED, created=at(0), containers=(), group_size=3, **fields)


def test_all_pods_are_created_at_once_with_a_gate_and_the_marks_of_the_group():
    ordered = a_job("PyTorchJob", master=1, worker=2, queue_labels=(*LABELS, ("kueue.x-k8s.io/x", "y")), grouped=True)
    found = bodies(plan_for(ordered))
    assert [body["metadata"]["name"] for body in found] == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]
    for body in found:
        labels, annotations = body["metadata"]["labels"], body["metadata"]["annotations"]
        kueues = {key.partition("/")[2]: value for key, value in labels.items() if key.startswith("kueue.")}
        assert kueues == {"managed": "true", "pod-group-name": "mnist-job-uid-0", "queue-name": "research", "x": "y"}
        assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "3"
        assert annotations["kueue.x-k8s.io/role-hash"] in ("master", "worker")
        assert body["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]


def test_the_gates_of_a_template_stay():
    template = {"spec": {"containers": [{"name": "tensorflow"}], "schedulingGates": [{"name": "mine"}]}}
    (body,) = bodies(plan_for(a_job(worker=1, template=template, queue_labels=LABELS, grouped=True)))
    assert body["spec"]["schedulingGates"] == [{"name": "mine"}, kueue_groups.GATE]


def test_a_failure_restarts_all_in_another_group():
    failed = a_pod("worker-0", "Failed", code=137, ended=5)
    decision = plan_for(JOB, *members(JOB, failed), status=running(JOB), now=at(9))
    assert sorted(deleted(decision)) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]
    again = bodies(plan_for(JOB, status=decision.status, now=at(60)))
    assert {body["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] for body in again} == {"mnist-job-uid-2"}


def test_a_pod_that_a_kubelet_rejects_is_not_replaced_alone():
    rejected = a_pod("worker-0", "Failed", reason="OutOfcpu", containers=())
    assert len(deleted(plan_for(JOB, *members(JOB, rejected), now=at(9)))) == 3


@pytest.mark.parametrize("count", [1, 3])
def test_a_job_of_another_size_gets_another_group(count):
    (chief, workers) = JOB.groups
    scaled = replace(JOB, groups=(chief, replace(workers, count=count)))
    decision = plan_for(scaled, *members(), status=running(JOB), now=at(9))
    assert sorted(deleted(decision)) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"][: 1 + max(count, 2)]
    assert event_reasons(decision) == ["TFJobRestarting"]
    assert decision.status.retries.used == 0
    (size,) = {
        body["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"]
        for body in bodies(plan_for(scaled, status=decision.status, now=at(60)))
    }
    assert size == str(1 + count)


def test_pods_that_wait_for_kueue_say_so_and_no_event_is_written_for_each():
    decision = plan_for(JOB, *map(gated, ("chief-0", "worker-0", "worker-1")), now=at(60))
    assert "waits for Kueue's admission (queue research)" in message(decision.status, "Blocked")
    assert event_reasons(decision) == []


def test_a_start_up_deadline_begins_when_a_pod_has_a_node():
    late = replace(JOB, startup_deadline=30)
    waits = [gated(name) for name in ("chief-0", "worker-0", "worker-1")]
    assert plan_for(late, *waits, now=at(99)).rule == "reconcile_replicas"
    placed = [replace(pod, unplaced="", node="n", scheduled=at(90)) for pod in waits]
    assert plan_for(late, *placed, now=at(99)).requeue_at == at(120)
    assert plan_for(late, *placed, now=at(120)).rule == "start_up"


def test_pods_decide_whether_their_job_is_grouped():
    failed = a_pod("worker-0", "Failed", code=137, ended=5)
    for job, size, gone in ((JOB, 0, 3), (ALONE, 3, 3), (ALONE, 0, 1)):
        decision = plan_for(job, *members(job, failed, size=size), status=running(JOB), now=at(9))
        assert len(deleted(decision)) == gone, (job.grouped, size)
    partly = plan_for(JOB, *members(size=0)[1:], status=running(JOB), now=at(9))
    assert all("schedulingGates" not in body["spec"] for body in bodies(partly))
    assert made(plan_for(ALONE)) == made(plan_for(JOB))


def test_a_job_without_a_queue_cannot_be_grouped():
    document = {"metadata": {"name": "mnist", "annotations": {KUEUE: "PodGroup"}}, "spec": {"tfReplicaSpecs": {}}}
    assert parse.NO_QUEUE in parse.job(document, TENSORFLOW, JobDefaults()).problems
    document["metadata"]["labels"] = {QUEUE_LABEL: "research", "other": "x", "kueue.x-k8s.io/priority-class": "high"}
    found = parse.job(document, TENSORFLOW, JobDefaults())
    assert parse.NO_QUEUE not in found.problems
    assert (found.grouped, found.scope) == (True, RestartScope.JOB)
    assert found.queue_labels == (("kueue.x-k8s.io/priority-class", "high"), (QUEUE_LABEL, "research"))


@pytest.mark.parametrize(
    ("framework", "default", "queue", "asked", "grouped"),
    [
        (TENSORFLOW, "PodGroup", "research", None, True),
        (TENSORFLOW, "PodGroup", "research", "Job", False),
        (TENSORFLOW, "Job", "research", "PodGroup", True),
        (TENSORFLOW, "Job", "research", None, False),
        (TENSORFLOW, "PodGroup", None, None, False),
        (MPI_V2BETA1, "PodGroup", "research", None, False),
        (MPI_V2BETA1, "PodGroup", "research", "PodGroup", True),
    ],
)
def test_a_setting_groups_jobs_that_do_not_choose_and_have_a_queue(framework, default, queue, asked, grouped):
    labels, annotations = ({key: value} if value else {} for key, value in ((QUEUE_LABEL, queue), (KUEUE, asked)))
    document = {"metadata": {"name": "mnist", "labels": labels, "annotations": annotations}}
    found = parse.job(document, framework, JobDefaults(kueue=KueueForm(default)))
    assert (found.grouped, parse.NO_QUEUE in found.problems) == (grouped, False)
    assert (found.scope is RestartScope.JOB) is grouped


def test_the_status_names_the_workload_of_the_pods():
    first = plan_for(JOB)
    assert first.status.workload == "mnist-job-uid-0"
    failed = a_pod("worker-0", "Failed", code=137, ended=5)
    again = plan_for(JOB, *members(JOB, failed), status=replace(running(JOB), workload="mnist-job-uid-0"), now=at(9))
    assert again.status.workload == "mnist-job-uid-2", "that of the next pods"
    assert plan_for(JOB, *members(size=0), status=again.status, now=at(9)).status.workload == ""
    ended = [a_pod(name, "Succeeded", ended=5) for name in ("chief-0", "worker-0", "worker-1")]
    over = replace(plan_for(ALONE, *members(ALONE, *ended), now=at(9)).status, workload="mnist-job-uid-0")
    assert over.over
    assert plan_for(ALONE, status=over, now=at(9)).status.workload == "mnist-job-uid-0"


@pytest.mark.parametrize(
    ("job", "grouped"),
    [
        ({}, False),
        ({"metadata": {"annotations": {KUEUE: "Job"}}}, False),
        ({"metadata": {"annotations": {KUEUE: "PodGroup"}}}, True),
        ({"metadata": {}, "status": {"kueueWorkload": "mnist-job-uid-0"}}, True),
    ],
)
def test_whoever_reads_a_job_sees_that_it_is_grouped(job, grouped):
    assert kueue_groups.is_grouped(job) is grouped


def test_the_name_of_a_group_is_a_label_for_any_job():
    name = kueue_groups.name_of("x" * 63, "0123456789abcdef", {"Chief": 2, "Worker": 10**9})
    assert (len(name) <= 63, name.endswith("-01234567-1000000002")) == (True, True)
