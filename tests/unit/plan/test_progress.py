"""A big job is created in parts, and its status says how far it has got; a small one costs no word more."""

from __future__ import annotations

from support.builders import (
    a_job,
    a_pod,
    a_service,
    at,
    made,
    message,
    plan_for,
    replace,
    run_policy,
    seen,
    services,
    states,
)
from trainshed.api.status import ConditionType
from trainshed.plan import plan
from trainshed.plan.messages.job_conditions import MANY
from trainshed.plan.pods import MAX_CREATED

BIG = a_job(worker=MAX_CREATED + MANY)
SIZE = MAX_CREATED + MANY


def some(count: int, **fields) -> list:
    """The pods of the first replicas."""
    return [a_pod(f"worker-{index}", **fields) for index in range(count)]


def test_many_pods_are_created_in_parts_with_their_services():
    first = plan_for(BIG, services=())
    assert len(made(first)) == len(services(first)) == MAX_CREATED
    assert first.requeue_at == at(0), "the rest follows at once"
    there = [a_service(f"worker-{index}") for index in range(MAX_CREATED)]
    rest = plan_for(BIG, *some(MAX_CREATED), services=there, status=first.status)
    assert made(rest) == services(rest) == [f"mnist-worker-{index}" for index in range(MAX_CREATED, SIZE)]
    assert plan_for(BIG, *some(SIZE), status=first.status).requeue_at is None


def test_all_pods_and_services_are_created_at_once_where_that_is_wanted():
    decision = plan(replace(seen(BIG, services=()), in_parts=False))
    assert made(decision) == services(decision) == [f"mnist-worker-{index}" for index in range(SIZE)]


def test_many_services_are_created_in_parts_while_pods_must_wait():
    status = plan_for(BIG).status
    waiting = replace(status, retries=replace(status.retries, next_retry_time=at(60)))
    decision = plan_for(BIG, *some(SIZE - 1), services=(), status=waiting)
    assert (made(decision), len(services(decision)), decision.requeue_at) == ([], MAX_CREATED, at(0))


def test_the_message_says_how_many_pods_there_are():
    first = plan_for(BIG).status
    assert message(first, "Created") == f"TFJob mnist is created. 0 of {SIZE} pods created"
    later = plan_for(BIG, *some(MAX_CREATED, phase="Pending"), status=first, now=at(5)).status
    assert message(later, "Created") == f"TFJob mnist is created. {MAX_CREATED} of {SIZE} pods created"
    created = later.condition(ConditionType.CREATED)
    assert (created.changed, created.updated, created.reason) == (at(0), at(5), "TFJobCreated")


def test_the_message_is_v1s_when_few_pods_are_missing():
    first = plan_for(BIG).status
    done = plan_for(BIG, *some(MAX_CREATED + 1, phase="Pending"), status=first).status
    assert message(done, "Created") == "TFJob mnist is created."
    assert message(plan_for(a_job(worker=MANY - 1)).status, "Created") == "TFJob mnist is created."


def test_the_order_of_the_conditions_stays():
    first = plan_for(BIG, *some(MAX_CREATED)).status
    assert states(first) == ["Created", "Running"]
    assert states(plan_for(BIG, *some(MAX_CREATED + 1), status=first).status) == ["Created", "Running"]


def test_what_another_controller_wrote_stays():
    job = a_job(worker=1)
    status = plan_for(job).status
    theirs = replace(status, conditions=tuple(replace(one, message="it is there") for one in status.conditions))
    assert message(plan_for(job, status=theirs).status, "Created") == "it is there"


def test_a_suspended_job_is_not_being_created():
    job = a_job(worker=SIZE, policy=run_policy(suspend=True))
    assert message(plan_for(job).status, "Created") == "TFJob mnist is created."
