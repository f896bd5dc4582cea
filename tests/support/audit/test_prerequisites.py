"""V1: what a pod needs is there before the operator makes it, and its job may have pods."""

from __future__ import annotations

import pytest

from .auditor import Auditor
from .change import OPERATOR, USER
from .prerequisites import COSCHEDULING_NAME, GROUPS, VOLCANO, VOLCANO_NAME
from .stories import FAR, Story, done, failed_once, owned

VOLUMES = [{"name": "keys", "secret": {"secretName": "job-ssh"}}, {"name": "own", "configMap": {"name": "others"}}]


def a_story(*, gang: bool = False, **policy: object) -> tuple[Story, dict]:
    """A job of one worker, and an auditor that allows the operator ten seconds."""
    story = Story(Auditor(gang=gang, under_way=10.0))
    return story, story.job(Worker=1, policy=policy)


def make_group(story: Story, job: dict, phase: str, api: str = f"{VOLCANO}v1beta1") -> None:
    """The operator makes the PodGroup of a job, and the scheduler sets its phase."""
    story.make(GROUPS, "job", OPERATOR, apiVersion=api, metadata=owned(job))
    story.status(GROUPS, "job", "scheduler", phase=phase)


def make_pod(story: Story, job: dict, *, volcano: str = "", coscheduling: str = "", **spec: object) -> None:
    """The operator makes a pod that belongs to these PodGroups."""
    meta = {"annotations": {VOLCANO_NAME: volcano}, "labels": {COSCHEDULING_NAME: coscheduling}, **owned(job)}
    story.make("pods", "job-worker-0", OPERATOR, kind="Pod", metadata=meta, spec=spec, status={"phase": "Pending"})


@pytest.mark.parametrize(("phase", "broken"), [("", {"V1"}), ("Pending", {"V1"}), ("Inqueue", set())])
def test_with_volcano_a_pod_is_made_once_its_group_is_admitted(phase, broken):
    story, job = a_story(gang=True)
    make_group(story, job, phase)
    make_pod(story, job, volcano="job")
    assert story.broken == broken


def test_a_group_that_was_admitted_once_may_wait_again():
    story, job = a_story(gang=True)
    make_group(story, job, "Running")
    story.status(GROUPS, "job", "scheduler", phase="Pending")
    make_pod(story, job, volcano="job")
    assert story.broken == set()


@pytest.mark.parametrize(("made", "broken"), [(True, set()), (False, {"V1"})])
def test_with_coscheduling_a_pod_is_made_once_its_group_is_there_whatever_its_phase(made, broken):
    story, job = a_story(gang=True)
    if made:
        make_group(story, job, "", "scheduling.x-k8s.io/v1alpha1")
    make_pod(story, job, coscheduling="job")
    assert story.broken == broken


def test_a_group_of_another_job_is_none():
    story, job = a_story()
    make_group(story, story.job(name="other", Worker=1), "Running")
    make_pod(story, job, volcano="job")
    assert story.broken == {"V1"}


@pytest.mark.parametrize(("later", "broken"), [(5, set()), (20, {"V1"})])
def test_a_group_that_is_gone_counts_for_as_long_as_a_request_may_be_under_way(later, broken):
    story, job = a_story()
    make_group(story, job, "Running")
    story.delete(GROUPS, "job", USER)
    story.now += later
    make_pod(story, job, volcano="job")
    assert story.broken == broken


@pytest.mark.parametrize(("gang", "broken"), [(True, {"V1"}), (False, set())])
def test_where_pods_are_placed_as_gangs_each_names_its_group(gang, broken):
    story, job = a_story(gang=gang)
    make_pod(story, job)
    assert story.broken == broken


@pytest.mark.parametrize(("made", "broken"), [(True, set()), (False, {"V1"})])
def test_the_secret_of_a_job_is_there_before_the_pods_that_mount_it(made, broken):
    story, job = a_story()
    if made:
        story.make("secrets", "job-ssh", OPERATOR, metadata=owned(job))
    make_pod(story, job, volumes=VOLUMES)
    assert story.broken == broken


def test_what_nobody_watches_is_not_missed():
    story = Story(Auditor(watched=()))
    make_pod(story, story.job(Worker=1), volcano="job", volumes=VOLUMES)
    assert story.broken == set()


@pytest.mark.parametrize(("later", "broken"), [(5, set()), (20, {"V1"})])
def test_a_job_that_is_suspended_or_over_gets_no_pods_but_those_that_were_under_way(later, broken):
    story, job = a_story()
    story.change("jaxjobs", "job", USER, lambda found: found["spec"]["runPolicy"].update(suspend=True))
    story.now += later
    make_pod(story, job)
    assert story.broken == broken
    story, job = a_story()
    make_pod(story, job)
    story.ends("job-worker-0")
    story.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    story.now += later
    story.delete("pods", "job-worker-0", USER)
    make_pod(story, job)
    assert story.broken & {"V1"} == broken


@pytest.mark.parametrize(("deadline", "broken"), [("1m30s", set()), ("1h", {"V5"})])
def test_a_job_fails_by_its_startup_deadline_only_if_a_pod_is_that_old(deadline, broken):
    story, job = a_story()
    annotation = {"trainshed.dev/startup-deadline": deadline}
    story.change("jaxjobs", "job", USER, lambda found: found["metadata"].update(annotations=annotation))
    make_pod(story, job)
    late = "2027-01-15T08:02:00Z"
    story.status("jaxjobs", states="Created Failed", startTime=FAR, completionTime=late)
    assert story.broken == broken


@pytest.mark.parametrize(("limit", "broken"), [(0, {"V3"}), (1, set()), (None, set())])
def test_no_restart_is_counted_beyond_the_back_off_limit(limit, broken):
    story, _ = failed_once(restarts=0)
    story.change("jaxjobs", "job", USER, lambda found: found["spec"]["runPolicy"].update(backoffLimit=limit))
    story.now += 100
    story.status("jaxjobs", states="Created Restarting", restarts=1, attempts={"Worker": 1})
    assert story.broken == broken
    assert done(story) >= broken
