"""A suspension ends the current attempt and discards its results; one that is resumed at once waits a moment."""

from __future__ import annotations

import pytest

from support.builders import (
    a_job,
    a_pod,
    a_service,
    at,
    made,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    seen,
    services,
)
from trainshed.api.actions import ScaleDown
from trainshed.plan import plan


def test_who_had_succeeded_before_a_suspension_is_made_again_after_it():
    job, suspended = a_job(worker=2), a_job(worker=2, policy=run_policy(suspend=True))
    done = a_pod("worker-1", "Succeeded", code=0, ended=5)
    status = plan_for(job, *pods_of(job, done), status=running(job), now=at(6)).status
    assert list(status.replica_statuses["Worker"].done) == [1]
    status = plan_for(suspended, *pods_of(job, done), status=status, now=at(7)).status
    status = plan_for(suspended, status=status, now=at(60)).status
    status = plan_for(job, status=status, now=at(90)).status
    assert made(plan_for(job, status=status, now=at(90))) == ["mnist-worker-0", "mnist-worker-1"]


@pytest.mark.parametrize(
    ("count", "down", "changed", "until"),
    [
        (1, 0, 4, 5),  # the spec changed a moment ago
        (1, 0, 3, None),
        (3, 0, 0.5, None),  # four seconds after the third in a row
        (4, 0, 0.5, 8),
        (9, 0, 0.5, 10),  # never longer
        (9, -6, 3.5, None),
        (1, 60, 60, None),  # by a clock that was set back
    ],
)
def test_after_a_scale_down_new_pods_and_their_services_wait_until_the_spec_has_not_changed_for_a_moment(
    count, down, changed, until
):
    job = a_job(worker=2)
    there = seen(job, a_pod("worker-0"), services=(a_service("worker-0"),), now=at(4))
    decision = plan(replace(there, scale_down=ScaleDown(count, at(down), at(changed))))
    assert made(decision) == services(decision) == ([] if until else ["mnist-worker-1"])
    assert decision.requeue_at == (at(until) if until else None)
