"""The API server times out, sends malformed responses, refuses, throttles, or rejects the token."""

from __future__ import annotations

import asyncio
import time

import pytest

from support.api_request import Answer, Request, refusal
from support.fault_proxy import Forward
from support.jobs import pytorchjob
from support.replace import replace

from .job_client import JobClient
from .run import Environment, Run
from .workloads import succeeds, trains

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]

MEMBERS = ("master-0", "worker-0", "worker-1")


def ddp(name: str = "a") -> dict:
    return pytorchjob(name, policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2)


async def lives(run: Run) -> None:
    """The job's whole life."""
    await trains(run.client, MEMBERS, ("master-0",))
    await run.client.nothing_left()
    await run.rest()


async def garbled(_request: Request, forward: Forward) -> Answer:
    """It was done, and the answer is a page of some proxy."""
    await forward()
    return Answer(200, b"<html>welcome</html>")


async def halved(_request: Request, forward: Forward) -> Answer:
    """It was done, and the answer is complete as HTTP and no JSON."""
    answer = await forward()
    return replace(answer, body=answer.body[: len(answer.body) // 2])


async def unavailable(_request: Request, _forward: Forward) -> Answer:
    return refusal(503, "ServiceUnavailable")


async def throttled(_request: Request, _forward: Forward) -> Answer:
    return refusal(429, "TooManyRequests")


@pytest.mark.fault("B9")
@pytest.mark.parametrize("fault", [garbled, halved, unavailable, throttled])
async def test_every_request_may_get_one_bad_response(environment: Environment, fault) -> None:
    """Includes reads: lists, and GETs before an action."""
    run = Run(environment, ddp())
    seen: set[str] = set()

    async def once(request: Request, forward: Forward) -> Answer:
        if request.by_kopf or str(request) in seen:
            return await forward()
        seen.add(str(request))
        return await fault(request, forward)

    run.route.on_write = run.route.on_read = once
    run.counted = 0
    async with run:
        await lives(run)
        assert run.supervisor.starts == 1
    assert len(seen) > 15, "all sorts of requests of one kind of job"
    assert run.violations(faults=len(seen)) == ()


@pytest.mark.fault("B6")
async def test_retry_after_is_respected_and_delays_no_other_job(environment: Environment) -> None:
    run = Run(environment, ddp())
    asked: dict[str, list[float]] = {}

    async def later(request: Request, forward: Forward) -> Answer:
        if request.plural != "pods" or not request.name.startswith("a-"):
            return await forward()
        asked.setdefault(str(request), []).append(request.at)
        first = len(asked[str(request)]) == 1
        return refusal(429, "TooManyRequests", Retry_After="4") if first else await forward()

    run.route.on_write = later
    async with run:
        other = JobClient(run.namespace, environment.api, run.history, environment.kubelet, ddp("b"), set())
        await run.client.create()
        await run.client.until("it was throttled", lambda: asked)
        await other.create()
        began = time.time()
        await other.says("Running")
        assert time.time() - began < 3, "b had to wait for a"
        await run.client.says("Running")
        assert not run.client.is_true("Blocked")
        await run.rest()
    pauses = [times[1] - times[0] for name, times in asked.items() if name.startswith("POST")]
    assert len(pauses) == len(MEMBERS)
    assert min(pauses) >= 4
    assert max(pauses) <= 15


@pytest.mark.fault("B10")
async def test_responses_may_be_slow(environment: Environment) -> None:
    """Every response takes two seconds: all actions complete, within the limits, and the Lease is kept."""
    run = Run(environment, ddp(), "--leader-elect", "--lease-name=mine")
    most = 0

    async def late(_request: Request, forward: Forward) -> Answer:
        nonlocal most
        most = max(most, len(run.route.under_way))
        answer = await forward()
        await asyncio.sleep(2)
        return answer

    async with run:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{run.namespace}/leases/mine"
        await run.client.create()
        await run.client.says("Running")
        run.route.on_write = run.route.on_read = late
        holder = (await environment.api.call("GET", path))["spec"]["holderIdentity"]
        await succeeds(run.client, ("master-0",))
        await run.client.nothing_left()
        await run.rest()
        assert (await environment.api.call("GET", path))["spec"]["holderIdentity"] == holder
        assert run.supervisor.starts == 1
    assert most <= 64
    assert run.violations() == ()
