"""After a refusal by the API server the status has the reason once, and the job is retried with back-off."""

from __future__ import annotations

from itertools import count

from support.harness import KEY, Office, Weak, a_spec, group_with_one_hidden
from trainshed.client import Forbidden, NameConflict

SMALL = a_spec(Chief=1, Worker=2)


async def test_a_foreign_pod_with_a_needed_name_is_not_touched():
    office = Office(SMALL)
    office.world.strangers = {"mnist-worker-0"}
    assert (await office.reconcile()).error.reason == "NameConflict"
    assert "Blocked" in office.states()
    assert "mnist-worker-0" not in office.world.made


async def rests(office: Office) -> bool:
    """Return whether no further reconcile is due after a few; the time stands still meanwhile."""
    for _ in range(10):
        office.woken.clear()
        await office.reconcile()
        if KEY not in office.woken:
            return True
    return False


async def test_a_refusal_with_changing_messages_causes_no_endless_requests():
    office, asked = Office(SMALL), count(1)

    async def refuse(*_: object) -> None:
        raise Forbidden(f"request {next(asked)} is not wanted", "Forbidden")

    office.world.create_pod = refuse
    assert await rests(office)
    assert "Blocked" in office.states()


async def test_a_pod_without_label_is_waited_for_despite_another_refusal():
    office = await group_with_one_hidden()
    service = office.world.services["mnist-chief-0"]
    await office.world.delete_service("ml", service.name, service.uid)
    Weak(office.world, "create_service", NameConflict("mnist-chief-0"), times=100)
    office.hear()
    assert await rests(office)
    assert office.snapshot().refusal.reason == "LabelRemoved"
