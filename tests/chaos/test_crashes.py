"""Crashes that are more than one at one write: with many requests under way, again and again, and early."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from support.api_request import Answer, Request
from support.fault_proxy import LOST, Forward
from support.jobs import job, pytorchjob
from support.sampling import sampled
from support.user_client import Refused, where
from trainshed.controller.reconciler import NEW

from .run import Environment, Run
from .workloads import succeeds, trains

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]

WORKERS = ("worker-0", "worker-1", "worker-2")
MEMBERS = ("master-0", *WORKERS)


def made(run: Run, plural: str = "pods") -> Counter[str]:
    """Return how often each object was created."""
    found = [version for version in run.history.versions if version.plural == plural and version.before is None]
    return Counter(version.name for version in found if version.after)


def makes_pod(request: Request) -> bool:
    return request.verb == "POST" and request.plural == "pods"


@pytest.mark.fault("A3")
@pytest.mark.parametrize("subset", sampled(range(8), 0, 5))
async def test_any_of_the_creates_in_flight_may_have_succeeded(environment: Environment, subset: int) -> None:
    """Three creates are under way when the operator dies: each of their eight subsets is completed to the whole."""
    run = Run(environment, pytorchjob("a", Master=1, Worker=3))
    waiting: list[str] = []
    all_here, dead = asyncio.Event(), asyncio.Event()

    async def hold(request: Request, forward: Forward) -> Answer:
        if not makes_pod(request) or request.name == "a-master-0" or dead.is_set():
            return await forward()
        waiting.append(request.name)
        if len(waiting) == len(WORKERS):
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 20)
        if subset >> int(request.name[-1]) & 1:
            await forward()
        if not dead.is_set():
            run.kill()
            dead.set()
        return LOST

    run.route.on_write = hold
    async with run:
        await trains(run.client, MEMBERS, ("master-0",))
        await run.rest()
    assert run.supervisor.starts == 2
    assert made(run) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert run.violations() == ()


@pytest.mark.fault("A4", "E2")
async def test_the_response_of_every_create_may_be_lost(environment: Environment) -> None:
    run = Run(environment, pytorchjob("a", policy={"backoffLimit": 0}, Master=1, Worker=3))
    lost: set[str] = set()

    async def lose(request: Request, forward: Forward) -> Answer:
        answer = await forward()
        if request.verb != "POST" or str(request) in lost or request.plural == "events":
            return answer
        lost.add(str(request))
        return LOST

    run.route.on_write = lose
    run.counted = 0
    async with run:
        await trains(run.client, MEMBERS, ("master-0",))
        await run.rest()
    assert len(lost) >= len(MEMBERS)
    assert made(run) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert run.violations(faults=len(lost)) == ()


@pytest.mark.fault("A14")
@pytest.mark.parametrize("every", [1, 2, 3, 4, 5])
async def test_an_operator_killed_at_every_nth_write_still_ends_the_job(environment: Environment, every: int) -> None:
    run = Run(environment, job("JAXJob", "a", policy={"cleanPodPolicy": "All"}, Worker=2))
    count = 0

    async def strike(_request: Request, forward: Forward) -> Answer:
        nonlocal count
        answer = await forward()
        count += 1
        if count % every == 0:
            run.kill()
            return LOST
        return answer

    run.route.on_write = strike
    async with run:
        await trains(run.client, ("worker-0", "worker-1"), ("worker-0", "worker-1"))
        await run.client.nothing_left()
        await run.rest()
        lives = run.supervisor.starts
    assert 2 <= lives <= len(run.route.writes) + 1
    assert made(run) == {"a-worker-0": 1, "a-worker-1": 1}
    assert run.violations(faults=lives) == ()


@pytest.mark.fault("A17", "C13")
@pytest.mark.parametrize("plural", ["pods", "services", "pytorchjobs"])
async def test_nothing_is_done_before_everything_is_listed(environment: Environment, plural: str) -> None:
    """One list takes long, and meanwhile a user makes a job and deletes another; then all is as it should be."""
    run = Run(environment, pytorchjob("a", Master=1, Worker=1))
    listed: list[float] = []
    hold = asyncio.Event()

    async def slow(request: Request, forward: Forward) -> Answer:
        if request.lists and request.plural == plural and not request.by_kopf and not listed:
            answer = await forward()
            await hold.wait()
            listed.append(time.time())
            return answer
        return await forward()

    run.route.on_read = slow
    async with run:
        await run.client.create()
        gone = pytorchjob("b", Master=1)
        await environment.api.call("POST", where("pytorchjobs", run.namespace), gone)
        await asyncio.sleep(NEW.total_seconds() + 1)  # a newer job gets its pods without a read
        await environment.api.call("DELETE", where("pytorchjobs", run.namespace, "b"))
        assert run.route.writes == []
        hold.set()
        await run.client.running("master-0", "worker-0")
        await succeeds(run.client, ("master-0",))
        await run.rest()
    assert min(write.at for write in run.route.writes) >= listed[0]
    assert made(run) == {"a-master-0": 1, "a-worker-0": 1}
    assert run.violations() == ()
    with pytest.raises(Refused):
        await environment.api.call("GET", where("pods", run.namespace, "b-master-0"))
