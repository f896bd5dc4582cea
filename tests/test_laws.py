"""The laws, in random worlds with crashes, lost looks and other people's hands: they hold at every step."""

from __future__ import annotations

import asyncio
import contextlib
import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from life import NAME, Life
from make import states
from trainshed.api.pod import Phase
from trainshed.loop.view import Key
from world import World

#: How many random worlds: few in every run, more by night.
WORLDS = int(os.environ.get("TRAINSHED_WORLDS", "60"))
STEPS = 60


async def live(seed: int) -> Life:
    """A random life, its laws checked at each step, and its end."""
    life = Life(Random(seed))
    for _ in range(STEPS):
        await life.step()
        life.check()
    await life.come_to_rest()
    life.check_the_end()
    return life


@settings(max_examples=WORLDS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_the_laws_hold_in_every_random_world(seed):
    asyncio.run(live(seed))


@pytest.mark.parametrize("before", [True, False])
def test_a_crash_at_any_write_changes_nothing_in_the_end(before):
    undisturbed = asyncio.run(quiet_life(0, before=before))
    for at in range(1, len(undisturbed.world.writes) + 1):
        life = asyncio.run(quiet_life(at, before=before))
        assert states(life.job[1]) == states(undisturbed.job[1])
        assert sorted(life.world.made) == sorted(undisturbed.world.made), at
        assert set(life.world.pods) == set(undisturbed.world.pods)
        assert life.job[1].retries.used == 1


async def quiet_life(dies_at: int, *, before: bool) -> Life:
    """A master and two workers, one of which is killed once; the operator dies at one of its writes."""
    life = Life(Random(1))
    life.world = World()
    life.kind, life.key = "PyTorchJob", Key("ml", "PyTorchJob", NAME)
    container = {"name": "pytorch", "image": "x"}
    group = {"restartPolicy": "ExitCode", "template": {"spec": {"containers": [container]}}}
    groups = {"Master": {"replicas": 1, **group}, "Worker": {"replicas": 2, **group}}
    life.world.submit("PyTorchJob", NAME, {"runPolicy": {"cleanPodPolicy": "Running"}, "pytorchReplicaSpecs": groups})
    life.begin()
    life.world.dies_in, life.world.dies_before = dies_at or -1, before
    killed = False
    for _ in range(40):
        life.hear()
        await life.look()
        for name, pod in list(life.world.pods.items()):
            with contextlib.suppress(KeyError):
                if pod.deleting:
                    life.world.confirm_deletion(name)
                elif pod.phase is Phase.PENDING:
                    life.world.set_pod(name, "Running")
        status = life.job[1]
        running = "Running" in states(status) and len(life.world.pods) == 3
        if running and not killed:
            killed = True
            life.world.set_pod(f"{NAME}-worker-1", "Failed", code=137)
        elif running and status.retries.used == 1 and status.attempts.get("Master") == 1:
            life.world.set_pod(f"{NAME}-master-0", "Succeeded", code=0)
        life.world.pass_time(2)
    return life
