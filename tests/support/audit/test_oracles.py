"""The auditor finds what is wrong, and nothing in what is right: for each oracle a story of either kind."""

from __future__ import annotations

import pytest

from support.audit.change import KUBELET, OPERATOR, USER
from support.audit.stories import FAR, Story, done, failed_once, owned


def test_a_restart_in_good_order_breaks_nothing():
    story, job = failed_once()
    for name in ("job-worker-0", "job-worker-1"):
        story.delete("pods", name)
    for name in ("job-worker-0", "job-worker-1"):
        story.pod(name, job, attempt=1)
        story.status("pods", name, KUBELET, phase="Running")
    story.status("jaxjobs", states="Created Running")
    for name in ("job-worker-0", "job-worker-1"):
        story.ends(name)
    story.status("jaxjobs", states="Created -Running Succeeded", completionTime=FAR)
    assert done(story, injected={job["metadata"]["uid"]: (1, 1)}, lifted=0, quiet=10) == set(), story.auditor.violations


def test_two_pods_in_one_seat_are_found():
    story = Story()
    job = story.job(Worker=2)
    story.pod("job-worker-0", job)
    twin = {"labels": {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}}
    story.make("pods", "job-worker-00", OPERATOR, metadata={**twin, **owned(job)})
    assert story.broken == {"V1"}


def test_a_pod_of_the_next_attempt_beside_one_of_the_last_is_found():
    story, job = failed_once()
    story.delete("pods", "job-worker-1")
    story.pod("job-worker-1", job, attempt=1)
    assert story.broken == {"V1"}


def test_a_pod_without_its_job_is_found_and_one_on_its_way_too():
    story = Story()
    job = story.job(Worker=1)
    story.pod("job-worker-0", job)
    story.delete("jaxjobs", "job", USER)
    assert done(story) == {"V2"}


def hold(story: Story, *finalizers: str) -> None:
    """Somebody sets the finalizers of a pod."""
    story.change("pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].update(finalizers=list(finalizers)))


@pytest.mark.parametrize("released", [True, False])
def test_a_pod_that_is_held_after_all_is_over_is_found(released):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1))
    story.change(
        "pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].update(finalizers=["trainshed.dev/job-tracking"])
    )
    story.ends("job-worker-0")
    story.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    if released:
        hold(story)
    assert done(story) == (set() if released else {"V2"})


def test_a_held_success_that_was_lost_is_found():
    story = Story()
    job = story.job(Worker=2)
    for name in ("job-worker-0", "job-worker-1"):
        story.pod(name, job)
    story.change(
        "pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].update(finalizers=["trainshed.dev/job-tracking"])
    )
    story.ends("job-worker-0")
    story.delete("pods", "job-worker-0", USER)
    assert story.broken == set()
    story.pod("job-worker-0", job)
    assert story.broken == {"V9"}


def test_a_finalizer_of_ours_is_found():
    story = Story()
    story.job(Worker=0)
    story.change("jaxjobs", "job", USER, lambda job: job["metadata"].update(finalizers=["trainshed.dev/wait"]))
    assert story.broken == {"V2"}


@pytest.mark.parametrize(
    ("policy", "states"), [({"suspend": True}, "Suspended"), ({"cleanPodPolicy": "All"}, "Failed")]
)
def test_pods_of_a_job_that_is_to_have_none_are_found(policy, states):
    story = Story()
    job = story.job(Worker=1, policy=policy)
    story.pod("job-worker-0", job)
    story.ends("job-worker-0", 1)
    story.status("jaxjobs", states=f"Created {states}", completionTime=FAR)
    assert done(story) - {"V1"} == {"V2"}


@pytest.mark.parametrize("said", ["Job job has failed because it has reached the specified backoff limit: …", "no"])
@pytest.mark.parametrize("ended", [True, False])
def test_a_pod_that_runs_on_at_a_limit_is_found(said, ended):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1))
    story.status("pods", "job-worker-0", KUBELET, phase="Running", containerStatuses=[{"state": {"running": {}}}])
    if ended:
        terminated = {"state": {"terminated": {"exitCode": 1}}}
        story.status("pods", "job-worker-0", KUBELET, containerStatuses=[terminated])
    story.status("jaxjobs", states="Created Failed", said=said, completionTime=FAR)
    assert done(story) & {"V2"} == (set() if ended or said == "no" else {"V2"})


def test_a_job_that_lacks_a_member_is_found_unless_it_is_blocked():
    story = Story()
    story.pod("job-worker-0", story.job(Worker=2))
    assert done(story) == {"V2"}
    story = Story()
    story.pod("job-worker-0", story.job(Worker=2))
    story.status("jaxjobs", states="Created Blocked")
    assert done(story) == set()


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_delete_before_its_reason_is_stored_is_found(attempt):
    story, _ = failed_once(restarts=attempt)
    story.delete("pods", "job-worker-0")
    assert story.broken == (set() if attempt else {"V3"})


def test_a_surplus_pod_may_go_without_a_word():
    story = Story()
    job = story.job(Worker=2)
    for name in ("job-worker-0", "job-worker-1"):
        story.pod(name, job)
    story.change("jaxjobs", "job", USER, lambda job: job["spec"]["jaxReplicaSpecs"]["Worker"].update(replicas=1))
    story.delete("pods", "job-worker-1")
    assert story.broken == set()
    story.delete("pods", "job-worker-0")
    assert story.broken == {"V3"}


@pytest.mark.parametrize(("seconds", "broken"), [(5, set()), (200, {"V1"})], ids=["under way", "long after"])
def test_a_pod_for_which_there_has_long_been_no_seat_is_found(seconds, broken):
    story = Story()
    job = story.job(Worker=2)
    story.change("jaxjobs", "job", USER, lambda job: job["spec"]["jaxReplicaSpecs"]["Worker"].update(replicas=1))
    story.now += seconds
    story.pod("job-worker-1", job)
    assert story.broken == broken


def test_a_counter_that_goes_back_or_counts_twice_is_found():
    story, _ = failed_once()
    story.status("jaxjobs", restarts=0)
    assert story.broken == {"V3"}
    assert failed_once(restarts=2)[0].broken == {"V3"}


def test_a_failure_that_nobody_counted_is_found():
    story, job = failed_once(restarts=0)
    assert done(story, injected={job["metadata"]["uid"]: (1, 1)}) == {"V3"}


@pytest.mark.parametrize("after", ["Created Running", "Created Failed", "Created Succeeded Failed"])
def test_a_verdict_that_is_changed_is_found(after):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1))
    story.ends("job-worker-0")
    story.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    assert story.broken == set()
    story.status("jaxjobs", states=after)
    assert "V4" in story.broken


def test_conditions_that_may_not_follow_each_other_are_found():
    story = Story()
    story.job(Worker=0, policy={"suspend": True})
    story.status("jaxjobs", states="Created Suspended")
    story.status("jaxjobs", states="Created Running")
    assert story.broken == {"V4"}


def test_a_success_that_nobody_had_is_found():
    story = Story()
    job = story.job(Worker=2)
    for name in ("job-worker-0", "job-worker-1"):
        story.pod(name, job)
    story.ends("job-worker-0")
    story.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    assert story.broken == {"V5"}


@pytest.mark.parametrize(
    ("code", "policy", "just"),
    [
        (1, {}, True),
        (137, {}, False),
        (137, {"backoffLimit": 0}, True),
        (137, {"backoffLimit": 1}, False),
        (137, {"activeDeadlineSeconds": 60}, False),
    ],
)
def test_a_failure_is_justified_by_an_exit_code_or_a_limit(code, policy, just):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1, policy=policy))
    story.ends("job-worker-0", code)
    story.status("jaxjobs", states="Created Failed", startTime="2027-01-15T07:59:30Z", completionTime=FAR)
    assert story.broken == (set() if just else {"V5"})


def test_a_failure_by_a_deadline_that_was_over_is_just():
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1, policy={"activeDeadlineSeconds": 30}))
    story.status("jaxjobs", states="Created Failed", startTime="2027-01-15T07:59:30Z", completionTime=FAR)
    assert story.broken == set()


def test_a_pod_that_was_taken_away_fails_nobody():
    story = Story()
    story.pod("job-worker-0", story.job(Worker={"replicas": 1, "restartPolicy": "Never"}))
    story.ends("job-worker-0", 1, reason="Evicted")
    story.status("jaxjobs", states="Created Failed", completionTime=FAR)
    assert story.broken == {"V5"}


@pytest.mark.parametrize(("seconds", "broken"), [(0, set()), (21, {"V6"})])
def test_what_has_no_job_is_left_alone_but_for_requests_under_way(seconds, broken):
    story = Story()
    job = story.job(Worker=1)
    story.pod("job-worker-0", job)
    story.change("pods", "job-worker-0", USER, lambda pod: pod["metadata"].pop("ownerReferences"))
    story.now += seconds
    story.delete("pods", "job-worker-0", OPERATOR)
    assert story.broken == broken


def test_a_pod_is_known_by_its_name_whatever_somebody_does_to_its_labels():
    story = Story()
    job = story.job(Worker=1)
    story.pod("job-worker-0", job)
    index = {"training.kubeflow.org/replica-index": "77"}
    story.change("pods", "job-worker-0", USER, lambda pod: pod["metadata"]["labels"].update(index))
    assert done(story) == set()


@pytest.mark.parametrize(("fewest", "broken"), [(2, {"V9"}), (0, set())])
def test_who_succeeded_while_held_is_not_made_again_unless_the_seat_was_taken_away(fewest, broken):
    story = Story()
    job = story.job(Worker=2)
    story.pod("job-worker-0", job)
    story.change(
        "pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].update(finalizers=["trainshed.dev/job-tracking"])
    )
    story.ends("job-worker-0", 0)
    for count in (fewest, 2):
        story.change(
            "jaxjobs", "job", USER, lambda job, to=count: job["spec"]["jaxReplicaSpecs"]["Worker"].update(replicas=to)
        )
    story.delete("pods", "job-worker-0", USER)
    story.pod("job-worker-0", job)
    assert story.broken & {"V9"} == broken
