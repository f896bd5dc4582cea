"""The auditor finds writes to foreign objects, needless writes, late ends and other final states."""

from __future__ import annotations

import pytest

from support.audit.auditor import attributed
from support.audit.change import CREATED, MODIFIED, OPERATOR, USER, Change, Request
from support.audit.scenario import FAR, Scenario, done, with_pods


def test_a_write_to_a_foreign_object_is_found():
    scenario = Scenario()
    job = scenario.job(Worker=1)
    scenario.make("pods", "job-worker-0", USER, status={"phase": "Running"})
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated == {"V6"}
    scenario = Scenario()
    other = {"metadata": {**job["metadata"], "uid": "another"}, "kind": "JAXJob"}
    scenario.pod("job-worker-0", other)
    assert scenario.violated == {"V6"}


def test_removing_its_own_finalizer_is_allowed():
    scenario = Scenario()
    scenario.make("pods", "job-worker-0", USER, metadata={"finalizers": ["trainshed.dev/job-tracking"]})
    scenario.change("pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].pop("finalizers"))
    assert scenario.violated == set()


def test_a_changed_spec_and_an_early_ttl_deletion_are_found():
    scenario = Scenario()
    scenario.job(Worker=1)
    scenario.change("jaxjobs", "job", OPERATOR, lambda job: job["spec"].update(runPolicy={"suspend": True}))
    assert scenario.violated == {"V6"}
    for ttl, wrong in ((60, {"V6"}), (0, set()), (None, {"V6"})):
        scenario, _ = with_pods(1, policy={"ttlSecondsAfterFinished": ttl})
        scenario.ends("job-worker-0")
        scenario.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
        scenario.delete("jaxjobs", "job")
        assert scenario.violated == wrong, ttl


def test_a_write_at_rest_is_found():
    scenario = Scenario()
    scenario.job(Worker=0)
    scenario.status("jaxjobs", states="Created")
    scenario.auditor.at_rest(scenario.now)
    assert scenario.violated == set()
    scenario.auditor.asked(Request(scenario.now + 5, "GET", "/apis/kubeflow.org/v1/namespaces/ml/jaxjobs/job", 200))
    scenario.auditor.at_rest(scenario.now)
    assert scenario.violated == set()
    scenario.auditor.asked(
        Request(scenario.now + 5, "PATCH", "/apis/kubeflow.org/v1/namespaces/ml/jaxjobs/job/status", 200)
    )
    scenario.auditor.at_rest(scenario.now)
    assert scenario.violated == {"V7"}


def test_a_needless_status_write_is_found():
    scenario = Scenario()
    scenario.job(Worker=0)
    for count in range(20):
        scenario.status("jaxjobs", conditions=[{"type": "Created", "status": "True", "message": str(count)}])
    assert done(scenario) == {"V7"}


def test_a_growing_status_is_found():
    scenario = Scenario()
    scenario.job(Worker=0)
    scenario.status("jaxjobs", failure={"terminationMessage": "x" * 16_384})
    assert scenario.violated == {"V7"}


def test_a_storm_of_events_is_found():
    scenario = Scenario()
    job = scenario.job(Worker=0)
    for count in range(30):
        message = {"involvedObject": {"uid": job["metadata"]["uid"]}}
        scenario.make("events", f"job.{count}", OPERATOR, **message)
    assert done(scenario) == {"V7"}


def test_a_job_that_costs_more_than_its_budget_is_found():
    scenario, job = with_pods(1)
    scenario.status("jaxjobs", states="Created")
    uid = job["metadata"]["uid"]
    assert done(scenario, budgets={uid: 2}) == set()
    assert done(scenario, budgets={uid: 1}) == {"V7"}


def test_a_late_end_is_found():
    scenario = Scenario()
    assert done(scenario, lifted=10.0, quiet=35.0) == set()
    assert done(scenario, lifted=10.0, quiet=45.0, longest_back_off=10) == set()
    assert done(scenario, lifted=10.0, quiet=45.0) == {"V8"}


def test_a_final_state_other_than_without_faults_is_found():
    def live(*, twice: bool) -> Scenario:
        scenario, job = with_pods(1)
        if twice:
            scenario.delete("pods", "job-worker-0", USER)
            scenario.pod("job-worker-0", job)
        return scenario

    reference = live(twice=False).auditor.summary()
    assert done(live(twice=False), reference=reference) == set()
    assert done(live(twice=True), reference=reference) == {"V9"}


def test_a_repeated_completed_replica_is_found():
    scenario, job = with_pods(2)
    scenario.ends("job-worker-0")
    scenario.status("jaxjobs", states="Created Running", replicaStatuses={"Worker": {"completedIndexes": "0"}})
    scenario.delete("pods", "job-worker-0", USER)
    scenario.pod("job-worker-0", job)
    assert scenario.violated == {"V9"}


@pytest.mark.parametrize(
    ("after", "attempt", "violated"), [("0-1", 0, set()), ("1", 0, {"V3"}), ("", 0, {"V3"}), ("", 1, set())]
)
def test_removed_completed_indexes_are_found_unless_the_job_restarts(after, attempt, violated):
    scenario, _ = with_pods(1, of=3)
    scenario.status("jaxjobs", states="Created Running", replicaStatuses={"Worker": {"completedIndexes": "0"}})
    message = {"replicaStatuses": {"Worker": {"completedIndexes": after}}}
    if attempt:
        message["attempts"] = {"Worker": attempt}
    scenario.status("jaxjobs", states="Created Running", **message)
    assert scenario.violated == violated


def test_a_change_that_the_operator_requested_is_attributed_to_it():
    job = {"metadata": {"namespace": "ml", "name": "job"}, "status": {}}
    changes = [
        Change(2.0, "", CREATED, "pods", None, {"metadata": {"namespace": "ml", "name": "job-worker-0"}}),
        Change(3.0, "", CREATED, "pods", None, {"metadata": {"namespace": "ml", "name": "another"}}),
        Change(4.0, "", MODIFIED, "jaxjobs", job, {**job, "status": {"restarts": 1}}),
        Change(5.0, "", MODIFIED, "jaxjobs", job, {**job, "spec": {}}),
    ]
    asked = [
        Request(1.0, "POST", "/api/v1/namespaces/ml/pods?fieldManager=trainshed", 201),
        Request(1.5, "POST", "/api/v1/namespaces/ml/pods?fieldManager=trainshed", 409),
        Request(3.5, "PATCH", "/apis/kubeflow.org/v1/namespaces/ml/jaxjobs/job/status", 0, lost=True),
        Request(3.6, "PATCH", "/apis/kubeflow.org/v1/namespaces/ml/jaxjobs/job/status", 200),
    ]
    assert [found.actor for found in attributed(changes, asked)] == [OPERATOR, "", OPERATOR, ""]
