"""The pods of a gang-scheduled job: when they are created, their annotations, and the condition meanwhile."""

from __future__ import annotations

import pytest

from support.builders import a_job, at, made, message, plan_for, pods_of, replace, run_policy, running, services, states
from trainshed.api import status_codec
from trainshed.api.actions import CreateDependent, CreatePod
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import COSCHEDULING_GROUPS

from .gangs import KAI, PLUGINS, VOLCANO, a_gang, a_group, about_group, decided


def test_without_a_gang_scheduler_there_is_no_group_and_no_mark():
    decision = decided(a_gang(), job_defaults=JobDefaults())
    assert about_group(decision) == []
    assert len(made(decision)) == 3
    (first, *_) = [action.body for action in decision.actions if isinstance(action, CreatePod)]
    assert "schedulerName" not in first["spec"]


@pytest.mark.parametrize(
    ("phase", "waits"), [("", True), ("Pending", True), ("Inqueue", False), ("Running", False), ("Unknown", False)]
)
def test_with_volcano_nothing_is_made_until_the_group_is_let_in(phase, waits):
    job = a_gang()
    decision = decided(job, group=a_group(job, phase), services=())
    assert (made(decision) == [], services(decision) == []) == (waits, waits)


def test_the_group_is_made_first_and_pods_wait_for_its_phase():
    decision = decided(a_gang(), services=())
    assert made(decision) == []
    assert states(decision.status) == ["Created", "Blocked"]
    assert message(decision.status, "Blocked") == "PodGroup mnist has not been admitted: it has no phase yet"


def test_a_group_that_is_going_lets_nobody_in():
    job = a_gang()
    assert made(decided(job, group=a_group(job, "Running", deleting=True))) == []


def test_somebody_elses_group_lets_nobody_in():
    job = a_gang()
    assert made(decided(job, group=a_group(job, "Running", name="other"))) == []


def test_why_a_job_waits_is_in_a_condition():
    job = a_gang()
    conditions = [
        {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"},
        {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "message": "3/3 tasks",
        },
        {"type": "Unschedulable", "status": "False", "reason": "Old", "message": "old"},
        {"type": "Scheduled", "status": "True", "reason": "x"},
        "no condition at all",
    ]
    status = decided(job, group=a_group(job, "Pending", conditions=conditions)).status
    blocked = next(condition for condition in status.conditions if condition.type == "Blocked")
    assert blocked.reason == "WaitingForPodGroup"
    why = "its phase is Pending (NotEnoughResources: 3/3 tasks)"
    assert blocked.message == f"PodGroup mnist has not been admitted: {why}"


def test_a_condition_without_a_reason_is_named_by_its_type():
    job = a_gang()
    group = a_group(job, "Pending", conditions=[{"type": "Unschedulable", "status": "True"}])
    assert message(decided(job, group=group).status, "Blocked").endswith("its phase is Pending (Unschedulable)")


def test_since_when_it_waits_is_written_once_and_taken_back():
    job = a_gang()
    first = decided(job).status
    assert status_codec.status_document(first)["lastReconcileTime"] == "2026-01-01T12:00:00Z"
    later = decided(job, group=a_group(job), status=first, now=at(100)).status
    assert later == first
    changed = decided(job, group=a_group(job, "Pending"), status=first, now=at(100)).status
    assert status_codec.status_document(changed)["lastReconcileTime"] == "2026-01-01T12:00:00Z"
    group = a_group(job, "Running")
    begun = decided(job, *pods_of(job), group=group, status=changed, now=at(200)).status
    assert states(begun) == ["Created", "Running"]
    assert "lastReconcileTime" not in status_codec.status_document(begun)


def test_what_the_api_server_refused_comes_first():
    job = a_gang()
    status = decided(job, refusal=("NameConflict", "the name is taken")).status
    assert message(status, "Blocked").startswith("the name is taken; 0 of ")
    assert "lastReconcileTime" not in status_codec.status_document(status)


def test_a_refused_group_of_a_job_whose_pods_exist_has_no_rest_to_retry():
    job = a_gang()
    status = decided(job, *pods_of(job), status=running(job), refusal=("Invalid", "bad")).status
    assert message(status, "Blocked") == "bad; 3 of 3 pods created; retrying"


def test_the_pods_that_run_are_none_the_worse_for_a_group_that_is_pending_again():
    job = a_gang()
    decision = decided(job, *pods_of(job), group=a_group(job, "Pending"), status=running(job))
    assert (states(decision.status), decision.actions) == (["Created", "Running"], ())


def test_with_the_coscheduling_plugin_pods_never_wait():
    decision = decided(a_gang(), job_defaults=PLUGINS)
    assert len(made(decision)) == 3
    assert isinstance(decision.actions[0], CreateDependent)
    assert decision.actions[0].resource is COSCHEDULING_GROUPS


@pytest.mark.parametrize("job_defaults", [PLUGINS, KAI], ids=["coscheduling", "KAI"])
@pytest.mark.parametrize(
    ("kind", "roles", "first"),
    [("XGBoostJob", {"master": 1, "worker": 2}, 3), ("MPIJob", {"launcher": 1, "worker": 2}, 3)],
)
def test_members_that_would_wait_for_others_are_made_together_with_them(kind, roles, first, job_defaults):
    assert len(made(plan_for(a_job(kind, **roles), job_defaults=job_defaults))) == first


def test_kai_makes_the_group_itself_by_what_is_in_the_labels_of_the_pods():
    decision = decided(a_gang(asked={"queue": "research", "priority_class": "build"}), job_defaults=KAI)
    assert about_group(decision) == []
    bodies = [action.body for action in decision.actions if isinstance(action, CreatePod)]
    assert len(bodies) == 3
    labels = {"kai.scheduler/queue": "research", "priorityClassName": "build"}
    for body in bodies:
        assert body["spec"]["schedulerName"] == "kai-scheduler"
        assert "priorityClassName" not in body["spec"]
        assert body["metadata"]["labels"].items() >= labels.items()


@pytest.mark.parametrize(("job_defaults", "scheduler"), [(VOLCANO, "volcano"), (PLUGINS, "scheduler-plugins")])
def test_pods_are_marked_as_members_and_given_the_scheduler(job_defaults, scheduler):
    job = a_gang()
    bodies = [
        action.body
        for action in decided(
            job, group=a_group(job, "Inqueue", job_defaults=job_defaults), job_defaults=job_defaults
        ).actions
        if isinstance(action, CreatePod)
    ]
    assert {body["spec"]["schedulerName"] for body in bodies} == {scheduler}
    metadata = bodies[-1]["metadata"]
    if job_defaults is VOLCANO:
        marks = {"scheduling.k8s.io/group-name": "mnist", "volcano.sh/task-spec": "worker"}
        assert metadata["annotations"].items() >= marks.items()
    else:
        assert metadata["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist"


@pytest.mark.parametrize(
    ("named", "warned"),
    [
        (("", ""), False),
        ((None, None), False),
        (("volcano", ""), False),
        (("other", ""), True),
        (("volcano", "other"), True),
        (("other", "other"), True),
        (("default-scheduler", "volcano"), True),
    ],
)
def test_another_scheduler_is_kept_and_warned_of_once(named, warned):
    job = a_gang("PyTorchJob", master=1, worker=1)
    templates = [{"spec": {"containers": [{"name": "pytorch"}], "schedulerName": name}} for name in named]
    groups = tuple(replace(group, template=template) for group, template in zip(job.groups, templates, strict=True))
    job = replace(job, groups=groups)
    decision = decided(job, group=a_group(job, "Inqueue"))
    notes = [note for note in decision.events if note.reason == "SetPodTemplateSchedulerName"]
    assert [bool(note.key) for note in notes] == [True] * warned
    pods = [action.body["spec"]["schedulerName"] for action in decision.actions if isinstance(action, CreatePod)]
    assert pods == [name or "volcano" for name in named]


def test_nobody_is_warned_where_there_is_no_gang_scheduler():
    template = {"spec": {"containers": [{"name": "tensorflow"}], "schedulerName": "mine"}}
    assert plan_for(a_job(worker=1, template=template)).events == ()


def test_time_goes_on_while_a_group_waits():
    job = a_gang(policy=run_policy(deadline=60))
    first = decided(job, group=a_group(job))
    assert first.requeue_at == at(60)
    late = decided(job, group=a_group(job), status=first.status, now=at(60)).status
    assert states(late) == ["Created", "Failed"]
