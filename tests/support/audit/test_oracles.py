"""The auditor finds violations, and only these: for each check a scenario with one and a scenario without."""

from __future__ import annotations

import pytest

from support.audit.change import KUBELET, OPERATOR, USER
from support.audit.scenario import FAR, Scenario, done, failed_once, owned, with_pods

FINALIZER = "trainshed.dev/job-tracking"


def test_a_correct_restart_has_no_violations():
    scenario, job = failed_once()
    for name in ("job-worker-0", "job-worker-1"):
        scenario.delete("pods", name)
    for name in ("job-worker-0", "job-worker-1"):
        scenario.pod(name, job, attempt=1)
        scenario.status("pods", name, KUBELET, phase="Running")
    scenario.status("jaxjobs", states="Created Running")
    for name in ("job-worker-0", "job-worker-1"):
        scenario.ends(name)
    scenario.status("jaxjobs", states="Created -Running Succeeded", completionTime=FAR)
    assert done(scenario, injected={job["metadata"]["uid"]: (1, 1)}, lifted=0, quiet=10) == set(), (
        scenario.auditor.violations
    )


def test_two_pods_of_one_replica_are_found():
    scenario = Scenario()
    job = scenario.job(Worker=2)
    scenario.pod("job-worker-0", job)
    twin = {"labels": {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}}
    scenario.make("pods", "job-worker-00", OPERATOR, metadata={**twin, **owned(job)})
    assert scenario.violated == {"V1"}


def test_pods_of_two_attempts_at_once_are_found():
    scenario, job = failed_once()
    scenario.delete("pods", "job-worker-1")
    scenario.pod("job-worker-1", job, attempt=1)
    assert scenario.violated == {"V1"}


def test_a_pod_without_its_job_is_found_and_so_is_a_terminating_one():
    scenario, _ = with_pods(1)
    scenario.delete("jaxjobs", "job", USER)
    assert done(scenario) == {"V2"}


@pytest.mark.parametrize("released", [True, False])
def test_a_finalizer_left_in_the_end_is_found(released):
    scenario, _ = with_pods(1)
    scenario.hold(FINALIZER)
    scenario.ends("job-worker-0")
    scenario.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    if released:
        scenario.hold()
    assert done(scenario) == (set() if released else {"V2"})


def test_a_lost_success_of_a_pod_with_finalizer_is_found():
    scenario, job = with_pods(2)
    scenario.hold(FINALIZER)
    scenario.ends("job-worker-0")
    scenario.delete("pods", "job-worker-0", USER)
    assert scenario.violated == set()
    scenario.pod("job-worker-0", job)
    assert scenario.violated == {"V9"}


def test_a_finalizer_on_another_object_is_found():
    scenario = Scenario()
    scenario.job(Worker=0)
    scenario.change("jaxjobs", "job", USER, lambda job: job["metadata"].update(finalizers=["trainshed.dev/wait"]))
    assert scenario.violated == {"V2"}


@pytest.mark.parametrize(
    ("policy", "states"), [({"suspend": True}, "Suspended"), ({"cleanPodPolicy": "All"}, "Failed")]
)
def test_pods_of_a_job_that_must_have_none_are_found(policy, states):
    scenario, _ = with_pods(1, policy=policy)
    scenario.ends("job-worker-0", 1)
    scenario.status("jaxjobs", states=f"Created {states}", completionTime=FAR)
    assert done(scenario) - {"V1"} == {"V2"}


@pytest.mark.parametrize("said", ["Job job has failed because it has reached the specified backoff limit: …", "no"])
@pytest.mark.parametrize("ended", [True, False])
def test_a_pod_that_keeps_running_after_a_limit_is_found(said, ended):
    scenario, _ = with_pods(1)
    scenario.status("pods", "job-worker-0", KUBELET, phase="Running", containerStatuses=[{"state": {"running": {}}}])
    if ended:
        terminated = {"state": {"terminated": {"exitCode": 1}}}
        scenario.status("pods", "job-worker-0", KUBELET, containerStatuses=[terminated])
    scenario.status("jaxjobs", states="Created Failed", said=said, completionTime=FAR)
    assert done(scenario) & {"V2"} == (set() if ended or said == "no" else {"V2"})


def test_a_job_with_a_missing_pod_is_found_unless_it_is_blocked():
    scenario, _ = with_pods(1, of=2)
    assert done(scenario) == {"V2"}
    scenario, _ = with_pods(1, of=2)
    scenario.status("jaxjobs", states="Created Blocked")
    assert done(scenario) == set()


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_delete_before_its_reason_is_stored_is_found(attempt):
    scenario, _ = failed_once(restarts=attempt)
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated == (set() if attempt else {"V3"})


def test_a_surplus_pod_may_be_deleted_without_a_status_change():
    scenario, _ = with_pods(2)
    scenario.scale(1)
    scenario.delete("pods", "job-worker-1")
    assert scenario.violated == set()
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated == {"V3"}


@pytest.mark.parametrize(("seconds", "violated"), [(5, set()), (200, {"V1"})], ids=["under way", "long after"])
def test_a_pod_beyond_the_replicas_is_found(seconds, violated):
    scenario = Scenario()
    job = scenario.job(Worker=2)
    scenario.scale(1)
    scenario.now += seconds
    scenario.pod("job-worker-1", job)
    assert scenario.violated == violated


def test_a_counter_that_decreases_or_counts_twice_is_found():
    scenario, _ = failed_once()
    scenario.status("jaxjobs", restarts=0)
    assert scenario.violated == {"V3"}
    assert failed_once(restarts=2)[0].violated == {"V3"}


def test_an_uncounted_failure_is_found():
    scenario, job = failed_once(restarts=0)
    assert done(scenario, injected={job["metadata"]["uid"]: (1, 1)}) == {"V3"}


@pytest.mark.parametrize("after", ["Created Running", "Created Failed", "Created Succeeded Failed"])
def test_a_changed_terminal_condition_is_found(after):
    scenario, _ = with_pods(1)
    scenario.ends("job-worker-0")
    scenario.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    assert scenario.violated == set()
    scenario.status("jaxjobs", states=after)
    assert "V4" in scenario.violated


def test_conditions_that_may_not_follow_each_other_are_found():
    scenario = Scenario()
    scenario.job(Worker=0, policy={"suspend": True})
    scenario.status("jaxjobs", states="Created Suspended")
    scenario.status("jaxjobs", states="Created Running")
    assert scenario.violated == {"V4"}


def test_a_success_without_a_succeeded_pod_is_found():
    scenario, _ = with_pods(2)
    scenario.ends("job-worker-0")
    scenario.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    assert scenario.violated == {"V5"}


@pytest.mark.parametrize(
    ("code", "policy", "just"),
    [
        (1, {}, True),
        (137, {}, False),
        (137, {"backoffLimit": 0}, True),
        (137, {"backoffLimit": 1}, False),
        (137, {"activeDeadlineSeconds": 60}, False),
        (137, {"activeDeadlineSeconds": 30}, True),
    ],
)
def test_a_failure_is_justified_by_an_exit_code_or_a_limit(code, policy, just):
    scenario, _ = with_pods(1, policy=policy)
    scenario.ends("job-worker-0", code)
    scenario.status("jaxjobs", states="Created Failed", startTime="2027-01-15T07:59:30Z", completionTime=FAR)
    assert scenario.violated == (set() if just else {"V5"})


def test_a_disrupted_pod_does_not_justify_a_failure():
    scenario = Scenario()
    scenario.pod("job-worker-0", scenario.job(Worker={"replicas": 1, "restartPolicy": "Never"}))
    scenario.ends("job-worker-0", 1, reason="Evicted")
    scenario.status("jaxjobs", states="Created Failed", completionTime=FAR)
    assert scenario.violated == {"V5"}


@pytest.mark.parametrize(("seconds", "violated"), [(0, set()), (21, {"V6"})])
def test_objects_without_a_job_are_left_alone_except_by_requests_in_flight(seconds, violated):
    scenario, _ = with_pods(1)
    scenario.change("pods", "job-worker-0", USER, lambda pod: pod["metadata"].pop("ownerReferences"))
    scenario.now += seconds
    scenario.delete("pods", "job-worker-0", OPERATOR)
    assert scenario.violated == violated


def test_a_pod_is_identified_by_its_name_and_not_by_its_labels():
    scenario, _ = with_pods(1)
    index = {"training.kubeflow.org/replica-index": "77"}
    scenario.change("pods", "job-worker-0", USER, lambda pod: pod["metadata"]["labels"].update(index))
    assert done(scenario) == set()


@pytest.mark.parametrize(("fewest", "violated"), [(2, {"V9"}), (0, set())])
def test_a_completed_replica_with_finalizer_is_not_created_again_unless_scaled_down(fewest, violated):
    scenario, job = with_pods(1, of=2)
    scenario.hold(FINALIZER)
    scenario.ends("job-worker-0", 0)
    for count in (fewest, 2):
        scenario.scale(count)
    scenario.delete("pods", "job-worker-0", USER)
    scenario.pod("job-worker-0", job)
    assert scenario.violated & {"V9"} == violated
