"""Deletions that all fail cost few requests, ones that fail by themselves keep no other, and all others are quick."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import cycle
from random import Random

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.client import UNCALLED, AdmissionDenied, ApiError, Conflict, Forbidden, TooManyRequests, Unavailable
from trainshed.controller.deletions import ALIKE, MAX_DELETIONS, PROBES, Deletions

DEAD = Unavailable("500: Internal error occurred: failed calling webhook", UNCALLED)
NO = AdmissionDenied("protected", "DeniedByWebhook")


class Objects:
    """Objects that plans delete, each in a second; `fails` says with which error."""

    def __init__(self, number: int, fails: Callable[[int], ApiError | None] = lambda _one: None) -> None:
        self.there, self.fails = {"pod": list(range(number)), "Service": list(range(number))}, fails
        self.tried: Counter[tuple[str, int]] = Counter()
        self.deletions = Deletions()

    async def plan(self, *kinds: str) -> int:
        """Delete what is there; return how many deletions were tried."""
        before = self.tried.total()
        tasks = {kind: [partial(self._delete, kind, one) for one in self.there[kind]] for kind in kinds}
        errors = await self.deletions.run("uid", tasks)
        assert bool(errors) == any(self.there[kind] for kind in kinds)
        return self.tried.total() - before

    async def _delete(self, kind: str, one: int) -> None:
        self.tried[kind, one] += 1
        await asyncio.sleep(1)
        if kind == "pod" and (error := self.fails(one)):
            raise error
        self.there[kind].remove(one)


@pytest.mark.parametrize("error", [DEAD, NO, Forbidden("no")], ids=lambda error: error.reason)
def test_deletions_that_all_fail_are_tried_a_few_at_a_time_and_each_in_its_turn(error):
    async def story():
        objects = Objects(100, lambda _one: error)
        assert ALIKE <= await objects.plan("pod") < MAX_DELETIONS + ALIKE + PROBES
        later = [await objects.plan("pod") for _ in range(40)]
        assert set(later) == {PROBES}
        assert len(objects.tried) == 100
        assert max(objects.tried.values()) <= 3
        objects.fails = lambda _one: None
        began = clock()
        await objects.plan("pod")
        assert objects.there["pod"] == []
        assert clock() - began <= 6, "all at a time after the first success"

    in_virtual_time(story())


@pytest.mark.parametrize(
    "other", [DEAD, Forbidden("no"), TooManyRequests("later", 1.0)], ids=lambda error: error.reason
)
def test_a_webhook_that_refuses_in_two_ways_in_turn_gets_few_deletions(other):
    async def story():
        answers = cycle((NO, other))
        objects = Objects(150, lambda _one: next(answers))
        plans = [await objects.plan("pod") for _ in range(5)]
        assert plans[0] < MAX_DELETIONS + ALIKE + PROBES
        assert set(plans[1:]) == {PROBES}

    in_virtual_time(story())


@pytest.mark.parametrize("refused", [1, 3, 20, 40])
@pytest.mark.parametrize("error", [DEAD, NO, Conflict("changed")], ids=lambda error: error.reason)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_objects_that_cannot_be_deleted_keep_no_others(refused, error, seed):
    """In each order: without a seed they are the first ones."""

    async def story():
        held = set(range(refused)) if seed is None else set(Random(seed).sample(range(100), refused))
        objects = Objects(100, lambda one: error if one in held else None)
        plans = [await objects.plan("pod")]
        while set(objects.there["pod"]) != held:
            plans.append(await objects.plan("pod"))
        assert len(plans) <= (3 if seed is None and refused > MAX_DELETIONS else 1), plans

    in_virtual_time(story())


def test_services_are_deleted_while_pods_cannot_be():
    async def story():
        objects = Objects(100, lambda _one: DEAD)
        for _ in range(2):
            await objects.plan("pod", "Service")
            assert objects.there["Service"] == []
            objects.there["Service"] = list(range(100))

    in_virtual_time(story())


def test_deletions_that_succeed_are_many_at_a_time():
    async def story():
        objects, began = Objects(320), clock()
        await objects.plan("pod")
        assert clock() - began == 320 / MAX_DELETIONS
        assert set(objects.tried.values()) == {1}

    in_virtual_time(story())


async def test_another_leader_forgets_which_deletions_fail():
    async def refuse() -> None:
        raise DEAD

    deletions = Deletions()
    assert len(await deletions.run("uid", {"pod": [refuse] * 10})) == ALIKE + PROBES
    assert len(await deletions.run("uid", {"pod": [refuse] * 10})) == PROBES
    deletions.clear()
    assert len(await deletions.run("uid", {"pod": [refuse] * 10})) == ALIKE + PROBES
