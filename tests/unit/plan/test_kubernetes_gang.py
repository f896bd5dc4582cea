"""Kubernetes' own gang scheduling: the PodGroup of scheduling.k8s.io, its pods, and when they wait."""

from __future__ import annotations

import pytest

from support.builders import a_pod, at, made, message, plan_for, replace, running, states
from trainshed.api.actions import CreateDependent, CreatePod, DeleteDependent, UpdateDependent
from trainshed.api.job import RestartScope
from trainshed.api.objects import KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA

from .gangs import KUBERNETES, a_gang, a_group, about_group, decided, spec

BOTH = (KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA)


def choose(job, *pods, **fields):
    return decided(job, *pods, job_defaults=KUBERNETES, **fields)


def group_of(job, **fields):
    return a_group(job, job_defaults=KUBERNETES, **fields)


def bodies(decision):
    return [action.body for action in decision.actions if isinstance(action, CreatePod)]


def with_templates(job, *specs):
    """The job with these fields in the pod specs of its roles."""
    groups = tuple(
        replace(group, template={"spec": {**group.template["spec"], **fields}})
        for group, fields in zip(job.groups, specs, strict=True)
    )
    return replace(job, groups=groups)


def blocked(decision):
    return next(condition for condition in decision.status.conditions if condition.type == "Blocked")


def test_the_group_is_made_first_and_the_pods_name_it():
    decision = choose(a_gang(), services=())
    (action,) = about_group(decision)
    assert (action, action.resource, action.name) == (decision.actions[0], KUBERNETES_GROUPS, "mnist")
    assert action.body["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert action.body["spec"] == {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}}}
    assert len(bodies(decision)) == 3
    for body in bodies(decision):
        assert body["spec"]["schedulingGroup"] == {"podGroupName": "mnist"}
        assert "schedulerName" not in body["spec"]
        assert "priorityClassName" not in body["spec"]


def test_before_1_37_the_group_has_the_old_fields():
    (action,) = about_group(choose(a_gang(), services=(), unserved=(KUBERNETES_GROUPS,)))
    assert action.resource is KUBERNETES_GROUPS_ALPHA
    assert action.body["spec"] == {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "PodGroup"}


@pytest.mark.parametrize(("asked", "count"), [(None, 3), (2, 2), (0, 1), (9, 3)])
def test_the_least_number_of_pods_is_between_one_and_all(asked, count):
    job = a_gang(asked={"min_available": asked})
    assert spec(job, KUBERNETES)["schedulingPolicy"] == {"gang": {"minCount": count}}


def test_the_number_follows_the_job_and_no_other_field_is_touched():
    group = group_of(a_gang())
    group = replace(group, document={**group.document, "spec": {**group.document["spec"], "priority": 7}})
    assert about_group(choose(a_gang(), group=group)) == []
    (action,) = about_group(choose(a_gang(asked={"min_available": 2}), group=group))
    assert isinstance(action, UpdateDependent)
    assert action.patch["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}


def test_before_1_37_the_number_cannot_be_changed():
    (action,) = about_group(choose(a_gang(), services=(), unserved=(KUBERNETES_GROUPS,)))
    known = {"name": "mnist", "uid": "g1", "version": "5", "owner": "job-uid", "namespace": "ml", "job": "mnist"}
    group = replace(group_of(a_gang()), resource=action.resource, document=action.body, **known)
    changed = a_gang(asked={"min_available": 2})
    assert about_group(choose(changed, group=group, unserved=(KUBERNETES_GROUPS,))) == []


def test_pods_that_have_succeeded_are_not_needed_for_the_replacement_of_another():
    job = replace(a_gang("TFJob", master=1, worker=2), scope=RestartScope.REPLICA)
    ended, runs = a_pod("worker-0", "Succeeded", code=0, node="n"), a_pod("master-0", node="n")
    for third in ((), (a_pod("worker-1", "Pending"),)):
        (action,) = about_group(choose(job, ended, runs, *third, group=group_of(job)))
        assert action.patch["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    fewer = replace(group_of(job), document={**group_of(job).document, **action.patch})
    whole = (ended, runs, a_pod("worker-1", node="n"))
    assert about_group(choose(job, *whole, group=fewer, status=running(job))) == []
    assert about_group(choose(job, *whole, group=group_of(job), status=running(job))) == []


def test_the_priority_of_the_pods_is_the_groups():
    job = with_templates(a_gang(), {"priorityClassName": "high"}, {"priorityClassName": "high"})
    assert spec(job, KUBERNETES)["priorityClassName"] == "high"
    assert {body["spec"]["priorityClassName"] for body in bodies(choose(job))} == {"high"}


def test_the_priority_of_the_policy_is_that_of_pods_that_name_none():
    job = with_templates(a_gang(asked={"priority_class": "high"}), {"priorityClassName": "high"}, {})
    assert spec(job, KUBERNETES)["priorityClassName"] == "high"
    assert {body["spec"]["priorityClassName"] for body in bodies(choose(job))} == {"high"}


@pytest.mark.parametrize(
    ("asked", "fields", "reason", "said"),
    [
        (
            {},
            ({"priorityClassName": "high"}, {}),
            "DifferentPriorities",
            "the same priorityClassName: Master has high, Worker has none",
        ),
        (
            {"priority_class": "low"},
            ({"priorityClassName": "high"}, {"priorityClassName": "high"}),
            "DifferentPriorities",
            "the same priorityClassName: schedulingPolicy has low, Master has high, Worker has high",
        ),
        (
            {},
            ({"preemptionPolicy": "Never"}, {}),
            "DifferentPriorities",
            "the same preemptionPolicy: Master has Never, Worker has none",
        ),
        (
            {},
            ({"schedulerName": "mine"}, {}),
            "DifferentSchedulers",
            "the same schedulerName: Master has mine, Worker has default-scheduler",
        ),
    ],
)
def test_a_job_with_different_priorities_gets_no_pod_and_says_why(asked, fields, reason, said):
    job = with_templates(a_gang(asked=asked), *fields)
    decision = choose(job, services=())
    assert (made(decision), about_group(decision)) == ([], [])
    assert blocked(decision).reason == reason
    assert blocked(decision).message == f"all pods of a PodGroup need {said}; no pod is created until they agree"
    assert len(about_group(choose(job, group=group_of(a_gang())))) == 0


def test_another_scheduler_for_all_pods_is_kept():
    job = with_templates(a_gang(), {"schedulerName": "mine"}, {"schedulerName": "mine"})
    decision = choose(job)
    assert {body["spec"]["schedulerName"] for body in bodies(decision)} == {"mine"}
    assert [event for event in decision.events if event.reason == "SetPodTemplateSchedulerName"] == []


def test_without_the_api_a_job_waits_and_says_so():
    first = choose(a_gang(), services=(), unserved=BOTH)
    assert (made(first), about_group(first)) == ([], [])
    assert blocked(first).reason == "PodGroupNotServed"
    assert blocked(first).message == (
        "the API server serves PodGroup neither in scheduling.k8s.io/v1beta1 nor in scheduling.k8s.io/v1alpha2:"
        " enable the API and the feature gate GenericWorkload; no pod is created until then"
    )
    assert first.requeue_at == at(30)
    later = choose(a_gang(), services=(), status=first.status, now=at(60))
    assert len(made(later)) == 3
    assert [pod.name for pod in later.status.waiting] == []


def test_pods_wait_until_the_group_of_an_earlier_run_is_gone():
    job = a_gang()
    decision = choose(job, group=group_of(job, deleting=True), services=())
    assert made(decision) == []
    assert message(decision.status, "Blocked") == "the previous PodGroup mnist is being deleted"


def test_a_group_of_another_priority_is_replaced_when_no_pod_needs_it():
    job = with_templates(a_gang(), {"priorityClassName": "high"}, {"priorityClassName": "high"})
    old = group_of(with_templates(a_gang(), {"priorityClassName": "low"}, {"priorityClassName": "low"}))
    decision = choose(job, group=old, services=())
    assert [type(action) for action in about_group(decision)] == [DeleteDependent]
    assert made(decision) == []
    assert states(decision.status) == ["Created", "Blocked"]
    pods = (a_pod("master-0", "Running", node="n"),)
    assert about_group(choose(job, *pods, group=old, status=running(job))) == []


def test_a_template_with_a_group_of_its_own_is_left_alone():
    mine = {"schedulingGroup": {"podGroupName": "mine"}}
    job = with_templates(a_gang(), mine, {})
    decision = choose(job, unserved=BOTH)
    assert about_group(decision) == []
    found = {body["metadata"]["name"]: body["spec"].get("schedulingGroup") for body in bodies(decision)}
    assert found == {"mnist-master-0": {"podGroupName": "mine"}, "mnist-worker-0": None, "mnist-worker-1": None}


def test_pods_that_would_wait_for_others_are_made_together_with_them():
    job = a_gang("XGBoostJob", master=1, worker=2)
    assert len(made(plan_for(job, job_defaults=KUBERNETES))) == 3


def test_the_group_goes_with_the_job():
    job = a_gang()
    paused = replace(job, policy=replace(job.policy, suspend=True))
    (action,) = about_group(choose(paused, group=group_of(job), status=running(job)))
    assert isinstance(action, DeleteDependent)
    assert not isinstance(action, CreateDependent)


def test_the_priority_of_a_role_without_replicas_does_not_matter():
    job = with_templates(a_gang(master=1, worker=0), {"priorityClassName": "high"}, {})
    assert spec(job, KUBERNETES)["priorityClassName"] == "high"
