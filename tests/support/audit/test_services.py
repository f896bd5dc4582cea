"""V2: pods keep the Services by which their peers find them, and at rest a job has no others."""

from __future__ import annotations

import pytest

from .auditor import Auditor
from .change import KUBELET, OPERATOR, USER
from .scenario import FAR, Scenario, done, owned
from .services import JOB_SERVICE

REST = {"injected": {}, "lifted": 0, "quiet": 10}


def running(*services: str, marked: bool = False) -> tuple[Scenario, dict]:
    """A job of two workers that runs, with these Services; its pods may be marked as those of one Service."""
    scenario = Scenario(Auditor(in_flight=1.5))
    job = scenario.job(Worker=2)
    for name in services:
        scenario.make("services", name, OPERATOR, metadata=owned(job))
    for name in ("job-worker-0", "job-worker-1"):
        scenario.pod(name, job)
        scenario.status("pods", name, KUBELET, phase="Running")
        if marked:
            scenario.change(
                "pods", name, KUBELET, lambda pod: pod["metadata"]["annotations"].update({JOB_SERVICE: "job"})
            )
    status = {"replicaStatuses": {"Worker": {"active": 2}}, "startTime": FAR}
    scenario.status("jaxjobs", states="Created Running", **status)
    return scenario, job


@pytest.mark.parametrize(("services", "marked"), [(("job-worker-0", "job-worker-1"), False), (("job",), True)])
def test_a_job_with_the_services_of_its_pods_breaks_nothing(services, marked):
    scenario, _ = running(*services, marked=marked)
    assert done(scenario, **REST) == set(), scenario.auditor.violations


@pytest.mark.parametrize(
    ("services", "marked"),
    [(("job-worker-0",), False), (("job",), False), (("job-worker-0",), True), (("job", "job-worker-0"), True)],
)
def test_a_missing_or_a_needless_service_is_found_at_the_end(services, marked):
    scenario, _ = running(*services, marked=marked)
    assert done(scenario, **REST) == {"V2"}


def test_where_services_are_not_watched_none_is_missed():
    scenario, _ = running()
    assert done(scenario, **REST) == set()


def test_the_operator_may_not_delete_the_service_of_a_pod_that_runs():
    scenario, _ = running("job", marked=True)
    scenario.delete("services", "job")
    assert scenario.violated == {"V2"}


@pytest.mark.parametrize("why", ["another client", "over", "suspended", "scaled down", "leaving", "new", "job gone"])
def test_a_service_may_go_with_its_pod_or_its_job(why):
    scenario, job = running("job-worker-0", "job-worker-1")
    if why == "over":
        scenario.status("jaxjobs", states="Created -Running Succeeded", completionTime=FAR)
    elif why == "suspended":
        scenario.change("jaxjobs", "job", USER, lambda job: job["spec"].update(runPolicy={"suspend": True}))
    elif why == "scaled down":
        scenario.scale(1)
    elif why == "leaving":
        scenario.change("pods", "job-worker-1", USER, lambda pod: pod["metadata"].update(deletionTimestamp=FAR))
    elif why == "new":
        scenario.delete("pods", "job-worker-1", USER)
        scenario.pod("job-worker-1", job)
    elif why == "job gone":
        scenario.delete("jaxjobs", "job", USER)
    before = len(scenario.auditor.violations)
    scenario.delete("services", "job-worker-1", USER if why == "another client" else OPERATOR)
    later = [found for found in scenario.auditor.violations[before:] if "worker-1 runs" in found.sentence]
    assert later == []
