"""The pods and Services to create and to delete."""

from __future__ import annotations

from support.builders import (
    DeleteService,
    a_job,
    a_pod,
    a_service,
    at,
    deleted,
    made,
    plan_for,
    pods_of,
    replace,
    seen,
    services,
)
from trainshed.api.status import Retries, Status
from trainshed.plan.facts import Facts
from trainshed.plan.pods import delete_all


def test_only_what_is_missing_is_made():
    job = a_job(chief=1, worker=3)
    pods = (a_pod("chief-0"), a_pod("worker-1", "Pending"))
    decision = plan_for(job, *pods, services=(a_service("worker-2"),))
    assert made(decision) == ["mnist-worker-0", "mnist-worker-2"]
    assert services(decision) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]


def test_the_missing_service_of_a_pod_is_made_while_others_have_to_wait_with_theirs():
    job = a_job(worker=2)
    status = Status(start=at(0), retries=Retries(next_retry_time=at(60)))
    decision = plan_for(job, a_pod("worker-1"), status=status, services=(), now=at(1))
    assert made(decision) == []
    assert services(decision) == ["mnist-worker-1"]


def test_pods_of_an_earlier_attempt_are_swept():
    job = a_job("PyTorchJob", master=1, worker=1)
    status = Status(attempts={"Master": 1, "Worker": 1})
    decision = plan_for(job, *pods_of(job), status=status)
    assert deleted(decision) == ["mnist-master-0", "mnist-worker-0"]
    assert made(decision) == []


def test_members_that_restart_together_wait_for_who_has_lost_its_seat_as_well():
    job = a_job("PyTorchJob", master=1)
    status = Status(attempts={"Master": 1})
    assert made(plan_for(job, a_pod("worker-0", deleting=True), status=status)) == []
    assert made(plan_for(job, a_pod("worker-0", deleting=True, attempt=1), status=status)) == ["mnist-master-0"]
    assert made(plan_for(job, a_pod("worker-0", "Failed", deleting=True), status=status)) == ["mnist-master-0"]


def test_a_pod_that_is_going_already_is_not_deleted_again():
    job = a_job("PyTorchJob", worker=1)
    status = Status(attempts={"Worker": 1})
    assert plan_for(job, a_pod("worker-0", deleting=True), status=status).actions == ()


def test_a_service_that_nobody_needs_goes():
    spare = (a_service("worker-0"), a_service("worker-1"), replace(a_service("worker-2"), deleting=True))
    decision = plan_for(a_job(worker=1), a_pod("worker-0"), services=spare)
    assert services(decision, DeleteService) == ["mnist-worker-1"]


def test_emptying_leaves_alone_what_goes_already():
    going = replace(a_service("worker-1"), deleting=True)
    pods = (a_pod("worker-0"), a_pod("worker-1", deleting=True))
    facts = Facts(seen(a_job(worker=2), *pods, services=(a_service("worker-0"), going)))
    assert [action.name for action in delete_all(facts)] == ["mnist-worker-0", "mnist-worker-0"]
