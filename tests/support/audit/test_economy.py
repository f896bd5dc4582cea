"""The auditor finds strangers that were touched, waste, lateness and another end: for each a story of either kind."""

from __future__ import annotations

import pytest

from support.audit.auditor import attributed
from support.audit.change import CREATED, MODIFIED, OPERATOR, USER, Change, Request
from support.audit.stories import FAR, Story, done


def test_touching_what_belongs_to_another_is_found():
    story = Story()
    job = story.job(Worker=1)
    story.make("pods", "job-worker-0", USER, status={"phase": "Running"})
    story.delete("pods", "job-worker-0")
    assert story.broken == {"V6"}
    story = Story()
    other = {"metadata": {**job["metadata"], "uid": "another"}, "kind": "JAXJob"}
    story.pod("job-worker-0", other)
    assert story.broken == {"V6"}


def test_taking_off_its_own_finalizer_is_no_touching():
    story = Story()
    story.make("pods", "job-worker-0", USER, metadata={"finalizers": ["trainshed.dev/job-tracking"]})
    story.change("pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].pop("finalizers"))
    assert story.broken == set()


def test_changing_a_spec_is_found_and_so_is_deleting_a_job_before_its_time():
    story = Story()
    story.job(Worker=1)
    story.change("jaxjobs", "job", OPERATOR, lambda job: job["spec"].update(runPolicy={"suspend": True}))
    assert story.broken == {"V6"}
    for ttl, wrong in ((60, {"V6"}), (0, set()), (None, {"V6"})):
        story = Story()
        story.pod("job-worker-0", story.job(Worker=1, policy={"ttlSecondsAfterFinished": ttl}))
        story.ends("job-worker-0")
        story.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
        story.delete("jaxjobs", "job")
        assert story.broken == wrong, ttl


def test_writing_at_rest_is_found():
    story = Story()
    story.job(Worker=0)
    story.status("jaxjobs", states="Created")
    story.auditor.at_rest(story.now)
    assert story.broken == set()
    story.auditor.asked(Request(story.now + 5, "GET", "/apis/kubeflow.org/v1/namespaces/ml/jaxjobs/job", 200))
    story.auditor.at_rest(story.now)
    assert story.broken == set()
    story.auditor.asked(Request(story.now + 5, "PATCH", "/apis/kubeflow.org/v1/namespaces/ml/jaxjobs/job/status", 200))
    story.auditor.at_rest(story.now)
    assert story.broken == {"V7"}


def test_a_status_that_is_written_for_nothing_is_found():
    story = Story()
    story.job(Worker=0)
    for count in range(20):
        story.status("jaxjobs", conditions=[{"type": "Created", "status": "True", "message": str(count)}])
    assert done(story) == {"V7"}


def test_a_status_that_grows_is_found():
    story = Story()
    story.job(Worker=0)
    story.status("jaxjobs", failure={"terminationMessage": "x" * 16_384})
    assert story.broken == {"V7"}


def test_a_storm_of_events_is_found():
    story = Story()
    job = story.job(Worker=0)
    for count in range(30):
        told = {"involvedObject": {"uid": job["metadata"]["uid"]}}
        story.make("events", f"job.{count}", OPERATOR, **told)
    assert done(story) == {"V7"}


def test_a_job_that_costs_more_than_its_budget_is_found():
    story = Story()
    job = story.job(Worker=1)
    story.pod("job-worker-0", job)
    story.status("jaxjobs", states="Created")
    uid = job["metadata"]["uid"]
    assert done(story, budgets={uid: 2}) == set()
    assert done(story, budgets={uid: 1}) == {"V7"}


def test_being_late_is_found():
    story = Story()
    assert done(story, lifted=10.0, quiet=35.0) == set()
    assert done(story, lifted=10.0, quiet=45.0, patience=10) == set()
    assert done(story, lifted=10.0, quiet=45.0) == {"V8"}


def test_another_end_than_without_faults_is_found():
    def live(*, twice: bool) -> Story:
        story = Story()
        job = story.job(Worker=1)
        story.pod("job-worker-0", job)
        if twice:
            story.delete("pods", "job-worker-0", USER)
            story.pod("job-worker-0", job)
        return story

    reference = live(twice=False).auditor.portrait()
    assert done(live(twice=False), reference=reference) == set()
    assert done(live(twice=True), reference=reference) == {"V9"}


def test_running_a_member_again_that_was_done_is_found():
    story = Story()
    job = story.job(Worker=2)
    for name in ("job-worker-0", "job-worker-1"):
        story.pod(name, job)
    story.ends("job-worker-0")
    story.status("jaxjobs", states="Created Running", replicaStatuses={"Worker": {"completedIndexes": "0"}})
    story.delete("pods", "job-worker-0", USER)
    story.pod("job-worker-0", job)
    assert story.broken == {"V9"}


@pytest.mark.parametrize(
    ("after", "attempt", "broken"), [("0-1", 0, set()), ("1", 0, {"V3"}), ("", 0, {"V3"}), ("", 1, set())]
)
def test_forgetting_who_had_succeeded_is_found_unless_all_begins_anew(after, attempt, broken):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=3))
    story.status("jaxjobs", states="Created Running", replicaStatuses={"Worker": {"completedIndexes": "0"}})
    told = {"replicaStatuses": {"Worker": {"completedIndexes": after}}}
    if attempt:
        told["attempts"] = {"Worker": attempt}
    story.status("jaxjobs", states="Created Running", **told)
    assert story.broken == broken


def test_a_change_is_the_operators_if_it_asked_for_it():
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
