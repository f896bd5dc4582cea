"""Jobs that save on SIGTERM (trainshed.dev/checkpoint-on-sigterm): their grace, what ends well, what is said of it."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, event_reasons, plan_for, pods_of, replace, run_policy, running
from trainshed.api.actions import CreatePod, DeletePod

DDP = {"kind": "PyTorchJob", "master": 1, "worker": 2, "restart": "ExitCode", "checkpoint_grace": 120}


def template(seconds):
    own = {} if seconds is None else {"terminationGracePeriodSeconds": seconds}
    return {"spec": {"containers": [{"name": "pytorch"}], **own}}


def saving(replica, code, took, **fields):
    """A pod whose deletion was requested at 20 s, and whose container ended some seconds later."""
    deletion = {"deleting": True, "deletion_timestamp": at(140), "grace": 120} | fields
    phase = "Running" if code is None else "Failed" if code else "Succeeded"
    return a_pod(replica, phase, container="pytorch", code=code, ended=20 + took, **deletion)


@pytest.mark.parametrize(("own", "given"), [(None, 120), (0, 120), (60, 120), (600, 600)])
def test_every_replica_has_at_least_this_grace_period(own, given):
    job = a_job(**DDP, template=template(own))
    for asked, grace in ((job, given), (replace(job, checkpoint_grace=None), own)):
        bodies = [action.body for action in plan_for(asked).actions if isinstance(action, CreatePod)]
        assert [body["spec"].get("terminationGracePeriodSeconds") for body in bodies] == [grace] * 3


def test_survivors_of_a_failure_have_the_whole_grace_period():
    job = a_job(**DDP)
    failed = a_pod("worker-1", "Failed", code=137, ended=10, container="pytorch")
    plan = plan_for(job, *pods_of(job, failed), status=running(job), now=at(13))
    assert {action.grace for action in plan.actions if isinstance(action, DeletePod)} == {None}


@pytest.mark.parametrize("grace", [120, 0])
@pytest.mark.parametrize("replica", ["master-0", "worker-1"])
def test_a_replica_that_ends_well_because_it_is_deleted_has_not_finished(replica, grace):
    job = a_job(**DDP)
    pod = saving(replica, 0, 5, grace=grace, deletion_timestamp=at(140 if grace else 26))
    plan = plan_for(job, *pods_of(job, pod), status=running(job), now=at(26))
    assert (plan.status.state, plan.status.failure.kind) == ("Restarting", "Disruption")
    unasked = plan_for(replace(job, checkpoint_grace=None), *pods_of(job, pod), status=running(job), now=at(26))
    assert unasked.status.failure is None


def test_a_replica_that_has_finished_before_it_is_deleted_has_succeeded():
    job = a_job(**DDP)
    plan = plan_for(job, *pods_of(job, saving("master-0", 0, -5)), status=running(job), now=at(26))
    assert plan.status.state == "Succeeded"


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (saving("master-0", 0, 12), "master-0 ended with code 0 12 s after SIGTERM; it had 120 s to save"),
        (saving("master-0", 3, 12), "master-0 ended with code 3 12 s after SIGTERM; it had 120 s to save"),
        (
            saving("worker-1", 137, 120),
            "worker-1 was killed 120 s after SIGTERM, as the 120 s of trainshed.dev/checkpoint-on-sigterm were over",
        ),
        (saving("worker-1", 0, 12), None),
        (saving("master-0", None, 0), None),
        (saving("master-0", 0, -3), None),
    ],
)
def test_an_event_says_whether_the_grace_period_was_used(pod, said):
    job = a_job(**DDP, policy=run_policy(suspend=True))
    status = plan_for(job, *pods_of(job), status=running(job), now=at(20)).status
    plan = plan_for(job, *pods_of(job, pod), status=status, now=at(141))
    assert [event.message for event in plan.events if event.reason.startswith("GracePeriod")] == [said] * bool(said)
    unasked = plan_for(replace(job, checkpoint_grace=None), *pods_of(job, pod), status=status, now=at(141))
    assert not any(reason.startswith("GracePeriod") for reason in event_reasons(unasked))
