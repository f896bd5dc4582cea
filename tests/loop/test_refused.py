"""What the server would not have: the status says why, once, and the job is looked at again in its time."""

from __future__ import annotations

from itertools import count

from office import KEY, Office, Weak, a_spec, group_with_one_hidden
from trainshed.cluster import Denied, NameTaken

SMALL = a_spec(Chief=1, Worker=2)


async def test_a_stranger_with_a_needed_name_is_left_alone():
    office = Office(SMALL)
    office.world.strangers = {"mnist-worker-0"}
    assert (await office.look()).error.reason == "NameTaken"
    assert "Blocked" in office.states()
    assert "mnist-worker-0" not in office.world.made


async def rests(office: Office) -> bool:
    """Whether nobody wants another look after a few; time stands still meanwhile."""
    for _ in range(10):
        office.woken.clear()
        await office.look()
        if KEY not in office.woken:
            return True
    return False


async def test_a_refusal_in_ever_new_words_is_not_asked_for_again_and_again():
    office, asked = Office(SMALL), count(1)

    async def refuse(*_: object) -> None:
        raise Denied(f"request {next(asked)} is not wanted", "Forbidden")

    office.world.create_pod = refuse
    assert await rests(office)
    assert "Blocked" in office.states()


async def test_who_is_hidden_is_waited_for_though_something_else_is_refused_as_well():
    office = await group_with_one_hidden()
    service = office.world.services["mnist-chief-0"]
    await office.world.delete_service("ml", service.name, service.uid)
    Weak(office.world, "create_service", NameTaken("mnist-chief-0"), times=100)
    office.hear()
    assert await rests(office)
    assert office.snapshot().trouble.reason == "LabelTakenOff"
