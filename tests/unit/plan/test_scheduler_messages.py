"""Why Volcano does not admit a PodGroup is in Events only: when they are read, and what a user reads of them."""

from __future__ import annotations

from functools import reduce

import pytest

from support.builders import T0, a_pod, at, message, pods_of, replace, seen
from trainshed.api.actions import SchedulerMessage
from trainshed.api.coerce import truncate_end
from trainshed.api.status import ConditionType
from trainshed.plan import plan, pod_groups

from .gangs import KUBERNETES, VOLCANO, a_gang, a_group, decided

OVERUSED = "resource in cluster is overused: overused cpu"


def waiting(job, group):
    return decided(job, group=group).status


def planned(job, group, seconds, *, scheduler_message=None, job_defaults=VOLCANO, pods=(), status=None):
    snapshot = seen(job, *pods, job_defaults=job_defaults, status=status or waiting(job, group), now=at(seconds))
    return plan(replace(snapshot, dependents=(group,), scheduler_message=scheduler_message))


def test_the_events_are_read_when_a_job_has_waited_for_a_while():
    job = a_gang()
    for phase in ("", "Pending"):
        group = a_group(job, phase)
        assert planned(job, group, 29).events_to_read == ""
        assert planned(job, group, 29).requeue_at == at(30)
        assert planned(job, group, 30).events_to_read == "g1"


@pytest.mark.parametrize(
    ("read", "again"), [(30, 60), (60, 120), (120, 240), (240, 480), (480, 960), (960, 1560), (1560, 2160)]
)
def test_each_read_is_later_than_the_one_before_by_at_most_ten_minutes(read, again):
    job, scheduler_message = a_gang(), SchedulerMessage(OVERUSED, at(read))
    group = a_group(job, "Pending")
    assert planned(job, group, again - 1, scheduler_message=scheduler_message).events_to_read == ""
    assert planned(job, group, again - 1, scheduler_message=scheduler_message).requeue_at == at(again)
    assert planned(job, group, again, scheduler_message=scheduler_message).events_to_read == "g1"


def test_what_was_read_before_this_wait_does_not_count():
    job = a_gang()
    old = SchedulerMessage(OVERUSED, T0.replace(year=2025))
    assert planned(job, a_group(job, "Pending"), 30, scheduler_message=old).events_to_read == "g1"


def test_nothing_is_read_for_a_job_that_does_not_wait_or_whose_group_says_why():
    job = a_gang()
    group, status = a_group(job, "Pending"), waiting(job, a_group(job, "Pending"))
    why = [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}]
    assert planned(job, a_group(job, "Pending", conditions=why), 60).events_to_read == ""
    assert planned(job, a_group(job, "Inqueue"), 60, status=status).events_to_read == ""
    assert planned(job, group, 60, pods=pods_of(job), status=status).events_to_read == ""
    assert planned(job, group, 60, job_defaults=KUBERNETES, status=status).events_to_read == ""


def test_the_message_of_the_scheduler_is_in_the_condition():
    job = a_gang()
    group = a_group(job, "Pending")
    status = planned(job, group, 31, scheduler_message=SchedulerMessage(OVERUSED, at(30))).status
    expected = f"PodGroup mnist has not been admitted: its phase is Pending ({OVERUSED})"
    assert message(status, "Blocked") == expected
    assert message(planned(job, group, 31, scheduler_message=SchedulerMessage("", at(30))).status, "Blocked").endswith(
        "its phase is Pending"
    )


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], ""),
        ([{"message": "a", "lastTimestamp": "2026-01-01T12:00:00Z"}, {"message": "b"}], "a"),
        (
            [
                {"message": "a", "lastTimestamp": "2026-01-01T12:00:00Z"},
                {"message": "b", "eventTime": "2026-01-01T12:00:01.5Z"},
                {"message": "c", "lastTimestamp": None, "series": {"lastObservedTime": "2026-01-01T11:00:00Z"}},
            ],
            "b",
        ),
        (
            [
                {"message": OVERUSED, "lastTimestamp": "2026-01-01T12:00:00Z"},
                {"message": "0/0 tasks in gang unschedulable: ", "lastTimestamp": "2026-01-01T12:00:01Z"},
            ],
            OVERUSED,
        ),
        ([{"message": "one\n  two"}], "one two"),
        ([{"message": None}, {}], ""),
        ([{"message": "x" * 600}], truncate_end("x" * 600, 512)),
    ],
)
def test_of_several_events_the_latest_that_says_something_counts(events, said):
    assert reduce(pod_groups.latest_message, events, ("", ""))[1] == said


@pytest.mark.parametrize("reason", ["Schedulable", "Undetermined"])
def test_the_pod_that_fits_no_node_comes_before_those_that_only_wait_for_it(reason):
    job, known = a_gang(), {"created": T0, "containers": ()}
    pods = [
        a_pod(replica, "Pending", unplaced=reason, unschedulable="can be assigned to node-a", **known)
        for replica in ("master-0", "worker-0")
    ]
    pods.append(a_pod("worker-1", "Pending", unplaced="Unschedulable", unschedulable="no room", **known))
    status = decided(job, *pods, group=a_group(job, "Inqueue"), now=at(60)).status
    assert status.condition(ConditionType.BLOCKED).reason == "Unschedulable"
    expected = "3 of 3 replicas are not running: worker-1: not scheduled: no room; master-0, worker-0: not scheduled: "
    assert message(status, "Blocked") == f"{expected}can be assigned to node-a"
