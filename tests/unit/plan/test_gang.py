"""The PodGroup of a job: its content, its updates, and its deletion."""

from __future__ import annotations

import pytest

from support.builders import a_pod, pods_of, replace, states
from trainshed.api.actions import DeleteDependent, UpdateDependent
from trainshed.api.objects import VOLCANO_GROUPS

from .gangs import PLUGINS, VOLCANO, a_gang, a_group, about_group, decided, spec


def test_volcanos_group_of_a_job_that_asks_for_nothing():
    (action,) = about_group(decided(a_gang(needs=({},)), services=()))
    assert (action.resource, action.name) == (VOLCANO_GROUPS, "mnist")
    assert action.body["spec"] == {"minMember": 3, "queue": "default"}
    assert action.body["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_all_that_a_user_asks_of_volcano():
    asked = {"min_available": 2, "queue": "q", "priority_class": "p", "min_resources": {"cpu": 3}, "timeout": 60}
    assert spec(a_gang(asked=asked)) == {
        "minMember": 2,
        "queue": "q",
        "priorityClassName": "p",
        "minResources": {"cpu": 3},
    }


def test_all_that_a_user_asks_of_the_coscheduling_plugin():
    asked = {"min_available": 2, "queue": "q", "priority_class": "p", "min_resources": {"cpu": 3}, "timeout": 60}
    assert spec(a_gang(asked=asked), PLUGINS) == {
        "minMember": 2,
        "minResources": {"cpu": 3},
        "scheduleTimeoutSeconds": 60,
    }


@pytest.mark.parametrize(
    ("needs", "asked", "resources"),
    [
        (({"requests": {"cpu": "500m"}},), {}, {"cpu": "1500m"}),
        (({"requests": {"cpu": "1", "memory": "512Mi"}}, {"requests": {"memory": "512Mi"}}), {}, None),
        (({"limits": {"cpu": "2"}},), {}, {"cpu": "6"}),
        (({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},), {}, {"cpu": "3"}),
        (({"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}},), {}, {"cpu": "3", "nvidia.com/gpu": "3"}),
        (({"requests": {"cpu": "1"}},), {"min_available": 2}, {"cpu": "2"}),
        (({"requests": {"cpu": "1"}},), {"min_available": 1}, {"cpu": "1"}),
        (({"requests": {"cpu": "1"}},), {"min_available": 9}, {"cpu": "3"}),
        (({"requests": {"cpu": "1"}},), {"min_available": 0}, {}),
        (({"requests": {"cpu": "1"}},), {"min_resources": {}}, {}),
        (({"requests": None, "limits": None},), {}, {}),
        ((None,), {}, {}),
    ],
)
def test_the_least_resources_are_those_of_the_least_members(needs, asked, resources):
    wanted = {"cpu": "3", "memory": "3Gi"} if resources is None else resources
    assert spec(a_gang(needs=needs, asked=asked)).get("minResources", {}) == wanted


@pytest.mark.parametrize(("job_defaults", "least"), [(VOLCANO, 0), (PLUGINS, 1)])
def test_only_volcano_accepts_a_group_without_a_least_number_of_members(job_defaults, least):
    assert spec(a_gang(asked={"min_available": 0}), job_defaults)["minMember"] == least


def test_roles_count_in_the_order_in_which_they_were_declared():
    job = a_gang("TFJob", master=1, ps=2, worker=3, asked={"min_available": 4})
    needs = {"Master": "1", "PS": "10", "Worker": "100"}
    groups = tuple(
        replace(group, template={"spec": {"containers": [{"resources": {"requests": {"cpu": needs[group.role]}}}]}})
        for group in job.groups
    )
    assert [group.role for group in groups] == ["Master", "PS", "Worker"]
    assert spec(replace(job, groups=groups))["minResources"] == {"cpu": "121"}


def test_at_most_as_many_resources_are_summed_as_a_job_may_ask_for():
    many = {"cpu": "1"} | {f"example.com/r{number}": "1" for number in range(40_000)}
    resources = spec(a_gang(needs=({"requests": many},)))["minResources"]
    assert len(resources) == 256
    assert resources["cpu"] == "3"


def test_init_containers_do_not_count():
    job = a_gang(needs=())
    template = {"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "9"}}}], "containers": []}}
    job = replace(job, groups=tuple(replace(group, template=template) for group in job.groups))
    assert "minResources" not in spec(job)


def test_the_annotations_of_the_job_are_the_groups():
    job = replace(a_gang(), annotations={"example.com/team": "a", "volcano.sh/preemptable": "true"})
    (action,) = about_group(decided(job, services=()))
    assert action.body["metadata"]["annotations"].items() >= dict(job.annotations).items()


def test_a_job_of_no_members_has_no_group():
    assert about_group(decided(a_gang(worker=0))) == []


def test_a_group_as_wished_is_left_in_peace():
    job = a_gang(asked={"min_resources": {"cpu": 3, "memory": "1024Mi"}})
    group = a_group(job, "Pending")
    written = {"cpu": "3", "memory": "1Gi"}
    same = replace(group, document=group.document | {"spec": group.document["spec"] | {"minResources": written}})
    assert about_group(decided(job, group=same)) == []


def test_a_group_follows_the_job():
    group = a_group(a_gang(asked={"min_available": 10}), "Pending")
    (action,) = about_group(decided(a_gang(asked={"min_available": 2}), group=group))
    assert isinstance(action, UpdateDependent)
    assert action.patch["metadata"].items() >= {"uid": "g1", "resourceVersion": "5"}.items()
    assert action.patch["spec"]["minMember"] == 2


def test_a_resource_that_is_no_longer_asked_for_is_taken_out():
    group = a_group(a_gang(asked={"min_resources": {"cpu": "1", "nvidia.com/gpu": "1"}}), "Pending")
    (action,) = about_group(decided(a_gang(asked={"min_resources": {"cpu": "1"}}), group=group))
    assert action.patch["spec"]["minResources"] == {"cpu": "1", "nvidia.com/gpu": None}


def test_the_queue_where_a_group_stands_is_never_changed():
    group = a_group(a_gang(asked={"queue": "first"}), "Pending")
    moved = a_gang(asked={"queue": "second", "min_available": 1})
    assert spec(moved, group=group)["queue"] == "first"
    nowhere = replace(group, document=group.document | {"spec": {"minMember": 3}})
    assert spec(moved, group=nowhere)["queue"] == "second"


@pytest.mark.parametrize("job_defaults", [VOLCANO, PLUGINS])
def test_the_group_goes_with_the_verdict(job_defaults):
    job = a_gang()
    group = a_group(job, "Running", job_defaults=job_defaults)
    over = decided(
        job, *pods_of(job, a_pod("master-0", "Succeeded", code=0)), group=group, job_defaults=job_defaults
    ).status
    assert over.over
    (action,) = about_group(decided(job, status=over, group=group, job_defaults=job_defaults))
    assert action == DeleteDependent(group.resource, "mnist", "g1")
    assert about_group(decided(job, status=over, group=replace(group, deleting=True), job_defaults=job_defaults)) == []
    assert about_group(decided(job, status=over, job_defaults=job_defaults)) == []


def test_the_group_goes_with_a_suspension_and_so_does_the_waiting():
    job = a_gang()
    waiting = decided(job, group=a_group(job, "Pending")).status
    paused = replace(job, policy=replace(job.policy, suspend=True))
    decision = decided(paused, status=waiting, group=a_group(job, "Pending"))
    assert [type(action) for action in about_group(decision)] == [DeleteDependent]
    assert states(decision.status) == ["Created", "Suspended"]
    assert about_group(decided(paused, status=decision.status)) == []
