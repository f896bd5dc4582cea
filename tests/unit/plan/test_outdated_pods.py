"""A changed pod template takes effect at the next restart, and the job says so."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, message, seen
from support.replace import replace
from trainshed.api import parse, status_codec
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import PYTORCH
from trainshed.plan import plan

SENTENCE = "The pod template was changed; until their next restart these pods have the old one: worker-0,2."


def with_template(name: str, **roles: int):
    """A job whose groups have this template hash."""
    job = a_job(**roles)
    return replace(job, groups=tuple(replace(group, template_hash=name) for group in job.groups))


def a_running_pod(replica: str, name: str):
    return replace(a_pod(replica, "Running"), template_hash=name)


def decided(job, *pods, status=None, seconds: float = 60):
    return plan(seen(job, *pods, status=status, now=at(seconds)))


@pytest.fixture
def changed():
    """The plan for a running job whose template was changed, after worker-1 was restarted."""
    pods = (a_running_pod("worker-0", "old"), a_running_pod("worker-1", "new"), a_running_pod("worker-2", "old"))
    return decided(with_template("new", worker=3), *pods)


def test_the_condition_running_names_the_replicas_with_the_old_template(changed):
    assert message(changed.status, "Running").endswith(f" is running. {SENTENCE}")


def test_an_event_tells_it_once_for_each_template(changed):
    (event,) = (event for event in changed.events if event.reason == "PodTemplateChanged")
    assert (event.message, event.key, str(event.type)) == (SENTENCE, "PodTemplateChanged/new", "Normal")


def test_no_pod_is_deleted_because_of_it(changed):
    assert changed.actions == () or all("DeletePod" not in type(action).__name__ for action in changed.actions)


def test_a_second_reconcile_changes_nothing(changed):
    pods = (a_running_pod("worker-0", "old"), a_running_pod("worker-1", "new"), a_running_pod("worker-2", "old"))
    again = decided(with_template("new", worker=3), *pods, status=changed.status, seconds=90)
    assert status_codec.same_status(changed.status, again.status)


def test_the_sentence_goes_with_the_last_old_pod(changed):
    pods = tuple(a_running_pod(f"worker-{index}", "new") for index in range(3))
    after = decided(with_template("new", worker=3), *pods, status=changed.status, seconds=90)
    assert message(after.status, "Running").endswith(" is running.")
    assert [event for event in after.events if event.reason == "PodTemplateChanged"] == []


def test_pods_of_v1_and_finished_pods_are_not_named():
    ended = replace(a_pod("worker-1", "Succeeded"), template_hash="old")
    decision = decided(with_template("new", chief=1, worker=2), a_running_pod("chief-0", ""), ended)
    assert "template" not in message(decision.status, "Running")


def test_before_the_job_runs_only_the_event_tells_it():
    pending = replace(a_pod("worker-0", "Pending"), template_hash="old")
    decision = decided(with_template("new", worker=1), pending)
    assert not decision.status.true("Running")
    assert [event.reason for event in decision.events if event.reason == "PodTemplateChanged"]


def test_the_hash_depends_on_the_content_of_the_template_alone():
    def hashed(*containers: dict) -> str:
        spec = {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": list(containers)}}}}}
        document = {"metadata": {"name": "a", "namespace": "ml", "uid": "u"}, "spec": spec}
        (group,) = parse.job(document, PYTORCH, JobDefaults()).groups
        return group.template_hash

    deep: dict = {}
    for _ in range(200_000):
        deep = {"deep": deep}
    assert hashed({"name": "pytorch", **deep}) == ""
    first = hashed({"name": "pytorch", "image": "a"})
    assert first == hashed({"image": "a", "name": "pytorch"})
    assert first != hashed({"name": "pytorch", "image": "b"})
