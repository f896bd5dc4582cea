"""V1: the objects that a pod needs exist before the operator creates it, and its job may have pods."""

from __future__ import annotations

import pytest

from .auditor import Auditor
from .change import OPERATOR, USER
from .prerequisites import COSCHEDULING_NAME, GROUPS, VOLCANO, VOLCANO_NAME
from .scenario import FAR, Scenario, done, failed_once, owned

VOLUMES = [{"name": "keys", "secret": {"secretName": "job-ssh"}}, {"name": "own", "configMap": {"name": "others"}}]


def a_story(*, gang: bool = False, **policy: object) -> tuple[Scenario, dict]:
    """A job of one worker, and an auditor that allows the operator ten seconds."""
    scenario = Scenario(Auditor(gang=gang, in_flight=10.0))
    return scenario, scenario.job(Worker=1, policy=policy)


def make_group(scenario: Scenario, job: dict, phase: str, api: str = f"{VOLCANO}v1beta1") -> None:
    """The operator makes the PodGroup of a job, and the scheduler sets its phase."""
    scenario.make(GROUPS, "job", OPERATOR, apiVersion=api, metadata=owned(job))
    scenario.status(GROUPS, "job", "scheduler", phase=phase)


def make_pod(scenario: Scenario, job: dict, *, volcano: str = "", coscheduling: str = "", **spec: object) -> None:
    """The operator makes a pod that belongs to these PodGroups."""
    meta = {"annotations": {VOLCANO_NAME: volcano}, "labels": {COSCHEDULING_NAME: coscheduling}, **owned(job)}
    scenario.make("pods", "job-worker-0", OPERATOR, kind="Pod", metadata=meta, spec=spec, status={"phase": "Pending"})


@pytest.mark.parametrize(("phase", "violated"), [("", {"V1"}), ("Pending", {"V1"}), ("Inqueue", set())])
def test_with_volcano_a_pod_is_made_once_its_group_is_admitted(phase, violated):
    scenario, job = a_story(gang=True)
    make_group(scenario, job, phase)
    make_pod(scenario, job, volcano="job")
    assert scenario.violated == violated


def test_a_group_that_was_admitted_once_may_wait_again():
    scenario, job = a_story(gang=True)
    make_group(scenario, job, "Running")
    scenario.status(GROUPS, "job", "scheduler", phase="Pending")
    make_pod(scenario, job, volcano="job")
    assert scenario.violated == set()


@pytest.mark.parametrize(("made", "violated"), [(True, set()), (False, {"V1"})])
def test_with_coscheduling_a_pod_is_made_once_its_group_is_there_whatever_its_phase(made, violated):
    scenario, job = a_story(gang=True)
    if made:
        make_group(scenario, job, "", "scheduling.x-k8s.io/v1alpha1")
    make_pod(scenario, job, coscheduling="job")
    assert scenario.violated == violated


def test_a_group_of_another_job_does_not_count():
    scenario, job = a_story()
    make_group(scenario, scenario.job(name="other", Worker=1), "Running")
    make_pod(scenario, job, volcano="job")
    assert scenario.violated == {"V1"}


@pytest.mark.parametrize(("later", "violated"), [(5, set()), (20, {"V1"})])
def test_a_deleted_group_counts_for_as_long_as_a_request_may_be_in_flight(later, violated):
    scenario, job = a_story()
    make_group(scenario, job, "Running")
    scenario.delete(GROUPS, "job", USER)
    scenario.now += later
    make_pod(scenario, job, volcano="job")
    assert scenario.violated == violated


@pytest.mark.parametrize(("gang", "violated"), [(True, {"V1"}), (False, set())])
def test_with_a_gang_scheduler_each_pod_names_its_group(gang, violated):
    scenario, job = a_story(gang=gang)
    make_pod(scenario, job)
    assert scenario.violated == violated


@pytest.mark.parametrize(("made", "violated"), [(True, set()), (False, {"V1"})])
def test_the_secret_of_a_job_is_there_before_the_pods_that_mount_it(made, violated):
    scenario, job = a_story()
    if made:
        scenario.make("secrets", "job-ssh", OPERATOR, metadata=owned(job))
    make_pod(scenario, job, volumes=VOLUMES)
    assert scenario.violated == violated


def test_kinds_that_are_not_watched_are_not_required():
    scenario = Scenario(Auditor(watched=()))
    make_pod(scenario, scenario.job(Worker=1), volcano="job", volumes=VOLUMES)
    assert scenario.violated == set()


@pytest.mark.parametrize(("later", "violated"), [(5, set()), (20, {"V1"})])
def test_a_suspended_or_finished_job_gets_no_pods_except_by_requests_in_flight(later, violated):
    scenario, job = a_story()
    scenario.change("jaxjobs", "job", USER, lambda found: found["spec"]["runPolicy"].update(suspend=True))
    scenario.now += later
    make_pod(scenario, job)
    assert scenario.violated == violated
    scenario, job = a_story()
    make_pod(scenario, job)
    scenario.ends("job-worker-0")
    scenario.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    scenario.now += later
    scenario.delete("pods", "job-worker-0", USER)
    make_pod(scenario, job)
    assert scenario.violated & {"V1"} == violated


@pytest.mark.parametrize(("later", "violated"), [(1, set()), (3, {"V1"})])
def test_a_new_job_may_get_the_pods_that_it_was_created_with(later, violated):
    scenario = Scenario(Auditor(in_flight=0.5))
    job = scenario.job(Worker=1)
    scenario.change("jaxjobs", "job", USER, lambda found: found["spec"]["runPolicy"].update(suspend=True))
    scenario.now += later
    make_pod(scenario, job)
    assert scenario.violated == violated


@pytest.mark.parametrize(("deadline", "violated"), [("1m30s", set()), ("1h", {"V5"})])
def test_a_job_fails_by_its_startup_deadline_only_if_a_pod_is_that_old(deadline, violated):
    scenario, job = a_story()
    annotation = {"trainshed.dev/startup-deadline": deadline}
    scenario.change("jaxjobs", "job", USER, lambda found: found["metadata"].update(annotations=annotation))
    make_pod(scenario, job)
    late = "2027-01-15T08:02:00Z"
    scenario.status("jaxjobs", states="Created Failed", startTime=FAR, completionTime=late)
    assert scenario.violated == violated


@pytest.mark.parametrize(("limit", "violated"), [(0, {"V3"}), (1, set()), (None, set())])
def test_no_restart_is_counted_beyond_the_back_off_limit(limit, violated):
    scenario, _ = failed_once(restarts=0)
    scenario.change("jaxjobs", "job", USER, lambda found: found["spec"]["runPolicy"].update(backoffLimit=limit))
    scenario.now += 100
    scenario.status("jaxjobs", states="Created Restarting", restarts=1, attempts={"Worker": 1})
    assert scenario.violated == violated
    assert done(scenario) >= violated
