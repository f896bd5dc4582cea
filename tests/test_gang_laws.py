"""The laws hold in random worlds with a gang scheduler, too, and nobody is placed before the group is let in."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gangs import PLUGINS, VOLCANO
from life import NAME, Life
from trainshed.api import gang
from trainshed.api.dependent import Dependent

#: How many random worlds: few in every run, more by night.
WORLDS = int(os.environ.get("TRAINSHED_WORLDS", "60")) // 2
STEPS = 60
OUTSIDE = ("", "Pending")


class Group:
    """The group in the world of a life, as its scheduler treats it."""

    def __init__(self, life: Life) -> None:
        self._life = life
        (self._kind,) = gang.resources(life.site.gang_scheduler)
        self._let_in: set[str] = set()
        self._made = 0

    @property
    def found(self) -> Dependent | None:
        """The group that is there now."""
        return self._life.world.dependents.get((self._kind, NAME))

    def set_phase(self, phase: str) -> None:
        """The scheduler says how the group is."""
        world, group = self._life.world, self.found
        if group is None:
            return
        if phase not in OUTSIDE:
            self._let_in.add(group.uid)
        document = {**group.document, "status": {"phase": phase}}
        world._put_dependent(world._renewed(group, document=document))

    def check(self) -> None:
        """Pods that were just made belong to a group that is there, and with Volcano to one that was let in."""
        made, self._made = self._life.world.made[self._made :], len(self._life.world.made)
        if made:
            assert self.found is not None
            assert self.found.uid in self._let_in or not gang.is_volcano(self._life.site.gang_scheduler)


async def live(life: Life) -> None:
    """A random life: at times the group is let in, or thrown out again."""
    group = Group(life)
    for _ in range(STEPS):
        if life.random.random() < 0.2:
            group.set_phase(life.random.choice(["Pending", "Inqueue", "Running", "Unknown"]))
        await life.step()
        life.check()
        group.check()
    life.world.dies_in = -1
    for _ in range(3):
        life.hear()
        await life.look()
        group.set_phase("Running")
    await life.come_to_rest()
    life.check_the_end()
    assert group.found is None


@pytest.mark.parametrize("site", [VOLCANO, PLUGINS])
def test_the_laws_hold_in_every_random_world_with_a_gang_scheduler(site):
    @settings(max_examples=WORLDS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.integers(0, 2**32))
    def every(seed: int) -> None:
        asyncio.run(live(Life(Random(seed), site)))

    every()
