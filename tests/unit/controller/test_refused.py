"""After a refusal by the API server the status has the reason once, and the job is retried with back-off."""

from __future__ import annotations

from itertools import count

import pytest

from support.harness import KEY, Harness, a_spec, group_with_one_hidden
from support.jobs import job
from trainshed.api.job import JobKey
from trainshed.api.objects import ROLES
from trainshed.client import Forbidden, Invalid, NameConflict, PreviousJobTerminating, Unavailable

SMALL = a_spec(Chief=1, Worker=2)


async def test_a_foreign_pod_with_a_needed_name_is_not_touched():
    harness = Harness(SMALL)
    harness.world.take_name("mnist-worker-0")
    assert (await harness.reconcile()).error.reason == "NameConflict"
    assert "Blocked" in harness.states()
    assert "mnist-worker-0" not in harness.world.made


async def test_a_job_that_is_created_again_waits_for_the_pods_of_the_one_before_without_alarm():
    harness = Harness(SMALL)
    waits = "waiting for pod mnist-chief-0 of the previous job to terminate"
    harness.world.fail("create_pod", PreviousJobTerminating(waits), times=6)
    for _ in range(2):
        await harness.reconcile()
    condition = harness.snapshot().status.decisive
    assert (condition.type, condition.reason) == ("Blocked", "PreviousJobTerminating")
    assert condition.message == f"{waits}; 0 of 3 pods created; retrying the rest"
    await harness.recorder.flush()
    events = [write for write in harness.world.writes if write.startswith("event") and "Service" not in write]
    assert events == ["event PreviousJobTerminating"]
    await harness.reconcile(3)
    assert "Blocked" not in harness.states()


async def rests(harness: Harness) -> bool:
    """Return whether no further reconcile is due after a few; the time stands still meanwhile."""
    for _ in range(10):
        harness.woken.clear()
        await harness.reconcile()
        if KEY not in harness.woken:
            return True
    return False


async def test_a_refusal_with_changing_messages_causes_no_endless_requests():
    harness, asked = Harness(SMALL), count(1)

    async def refuse(*_: object) -> None:
        raise Forbidden(f"request {next(asked)} is not wanted", "Forbidden")

    harness.world.create_pod = refuse
    assert await rests(harness)
    assert "Blocked" in harness.states()


async def test_a_pod_without_label_is_waited_for_despite_another_refusal():
    harness = await group_with_one_hidden()
    harness.world.delete("services", "mnist-chief-0")
    harness.world.fail("create_service", NameConflict("mnist-chief-0"), times=100)
    harness.hear()
    assert await rests(harness)
    assert harness.snapshot().refusal.reason == "LabelRemoved"


async def test_a_repeated_refusal_has_no_message_but_what_was_done_always_has_one():
    harness = Harness(SMALL)
    harness.world.take_name("mnist-worker-0")
    first, second = await harness.reconcile(), await harness.reconcile()
    assert (first.error.reason, first.known) == ("NameConflict", False)
    assert (second.error.reason, second.known, second.message) == ("NameConflict", True, "")
    harness.world.delete("pods", "mnist-chief-0")
    harness.hear()
    third = await harness.reconcile()
    assert (third.known, "created 1 of 2 pods" in third.message) == (True, True)


@pytest.mark.parametrize("verb", ["store_status", "update_dependent"])
@pytest.mark.parametrize("error", [Invalid("no"), Forbidden("no"), Unavailable("no")], ids=lambda error: error.reason)
async def test_what_is_refused_does_not_leave_a_worker_that_is_gone_in_the_role(verb, error):
    """The status, or the ConfigMap with the hosts, cannot be written."""
    harness, key = Harness(), JobKey("ml", "MPIJob", "mnist")
    harness.world.submit("MPIJob", "mnist", job("MPIJob", "mnist", Launcher=1, Worker=1)["spec"])

    async def step() -> None:
        harness.hear()
        await harness.reconciler.reconcile(key, harness.now())

    for phase in ("Pending", "Running"):
        await step()
        for name in harness.world.pods:
            harness.world.set_pod(name, phase)
        await step()
    harness.world.delete("pods", "mnist-worker-0", 0)
    call = getattr(harness.world, verb)

    async def refuse(what, *arguments):
        if what is ROLES:
            return await call(what, *arguments)
        raise error

    setattr(harness.world, verb, refuse)
    for _ in range(2):
        await step()
    rules = harness.world.get(ROLES, "mnist-launcher")["rules"]
    assert [rule["resources"] for rule in rules] == [["configmaps"]]


async def test_what_is_refused_for_a_job_that_is_gone_meanwhile_does_not_block_the_next_one_of_its_name():
    harness, create = Harness(SMALL), None

    async def refuse(*_: object) -> None:
        harness.world.create_pod = create
        harness.world.delete("tfjobs")
        harness.world.submit("TFJob", "mnist", SMALL)
        harness.hear()
        raise Forbidden("exceeded quota", "QuotaExceeded")

    create, harness.world.create_pod = harness.world.create_pod, refuse
    await harness.reconcile()
    assert harness.snapshot().refusal is None
    assert "Blocked" not in harness.states()
