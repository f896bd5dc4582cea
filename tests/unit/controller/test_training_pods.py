"""Which pods train: one order for the log that is followed and for the ranks that are asked."""

from __future__ import annotations

import pytest

from support.builders import FRAMEWORKS, a_job, a_pod, pods_of, replace
from trainshed.controller.training_pods import leader, with_ranks


@pytest.mark.parametrize(
    ("job", "reports", "ranks"),
    [
        (a_job("PyTorchJob", master=1, worker=1), "master-0", ["master-0", "worker-0"]),
        (a_job("TFJob", ps=1, worker=2), "worker-0", ["worker-0", "worker-1"]),
        (a_job("TFJob", worker=1, chief=1, evaluator=1), "chief-0", ["chief-0", "worker-0"]),
        (a_job("MPIJob", launcher=1, worker=2), "launcher", ["worker-0", "worker-1"]),
        (replace(a_job("JAXJob", worker=1), groups=()), "None", []),
    ],
    ids=lambda value: "",
)
def test_the_replica_that_leads_reports_and_is_asked_first_if_it_has_a_rank(job, reports, ranks):
    framework = FRAMEWORKS[job.kind]
    assert str(leader(job, framework)) == reports
    assert [pod.name.removeprefix(f"{job.name}-") for pod in with_ranks(job, framework, pods_of(job)[::-1])] == ranks


@pytest.mark.parametrize(
    ("pod", "ranks"),
    [(a_pod("worker-1", "Pending"), []), (a_pod("worker-1", deleting=True), ["worker-0"])],
    ids=["pending", "deleting"],
)
def test_ranks_are_asked_only_while_all_run(pod, ranks):
    job = a_job("JAXJob", worker=2)
    found = with_ranks(job, FRAMEWORKS["JAXJob"], pods_of(job, pod))
    assert [pod.name.removeprefix(f"{job.name}-") for pod in found] == ranks
