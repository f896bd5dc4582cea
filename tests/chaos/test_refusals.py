"""The API server refuses a kind, a right or a token for a while, and deletes of objects that no longer exist."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from support.api_request import Answer, Request, refusal
from support.fault_proxy import Forward
from support.user_client import Refused, where

from .job_client import JobClient
from .run import Environment, Run
from .test_api_responses import MEMBERS, ddp, lives
from .workloads import succeeds

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.fault("B17")
async def test_one_kind_may_be_unavailable(environment: Environment) -> None:
    """Services are unavailable: running jobs complete, and a new job starts when Services are available again."""
    run = Run(environment, ddp())

    async def no_services(request: Request, forward: Forward) -> Answer:
        return refusal(503, "ServiceUnavailable") if request.plural == "services" else await forward()

    async with run:
        other = JobClient(run.namespace, environment.api, run.history, environment.kubelet, ddp("b"), set())
        await run.client.create()
        await run.client.says("Running")
        run.route.on_write = run.route.on_read = no_services
        await other.create()
        await run.client.end("master-0", 0)
        await run.client.says("Succeeded")
        await run.client.until("no pods of a", lambda: not [name for name in run.history.now["pods"] if name[0] == "a"])
        run.route.on_write = run.route.on_read = lambda _request, forward: forward()
        await other.says("Running")
        await run.client.until("no Services of a", lambda: not [n for n in run.history.now["services"] if n[0] == "a"])
        await run.rest()
    assert run.violations(faults=5) == ()


@pytest.mark.fault("B12")
async def test_a_missing_right_blocks_the_job_until_it_is_granted_again(environment: Environment) -> None:
    run = Run(environment, ddp())

    async def no_pods(request: Request, forward: Forward) -> Answer:
        lost = request.plural == "pods" and request.verb == "POST"
        return refusal(403, "Forbidden", "User cannot create resource pods") if lost else await forward()

    run.route.on_write = no_pods
    async with run:
        await run.client.create()
        await run.client.says("Blocked")
        asked = len(run.route.writes)
        await asyncio.sleep(3)
        assert len(run.route.writes) - asked <= 6, "it asks again and again"
        run.route.on_write = lambda _request, forward: forward()
        await run.client.running(*MEMBERS)
        assert not run.client.is_true("Blocked")
        assert "cannot create resource pods" in run.supervisor.operator.log.read_text()
        await succeeds(run.client, ("master-0",))
        await run.rest()
    assert run.violations() == ()


@pytest.mark.fault("B14")
async def test_the_token_may_change_every_second(environment: Environment, tmp_path: Path) -> None:
    """The proxy accepts only the latest token; no reconcile fails because of that."""
    file = tmp_path / "token"
    file.write_text("token-0")
    kubeconfig = environment.proxy.kubeconfig(tmp_path, tokenFile=str(file))
    run = Run(environment, ddp(), f"--kubeconfig={kubeconfig}")
    refused = 0

    async def asks_who_it_is(request: Request, forward: Forward) -> Answer:
        nonlocal refused
        if request.headers.get("Authorization") != f"Bearer {file.read_text()}":
            refused += 1
            return refusal(401, "Unauthorized")
        return await forward()

    async def rotate() -> None:
        for number in range(1, 100):
            await asyncio.sleep(1)
            file.write_text(f"token-{number}")

    run.route.on_write = run.route.on_read = asks_who_it_is
    async with run:
        rotation = asyncio.create_task(rotate())
        await lives(run)
        rotation.cancel()
        retries = [line for line in run.supervisor.operator.log.read_text().splitlines() if "retrying in" in line]
    assert retries == []
    assert run.violations(faults=refused) == ()


@pytest.mark.fault("B5")
async def test_a_delete_of_what_is_gone_is_no_error(environment: Environment) -> None:
    """Another client deletes pods just before the operator does, and the job just before its next status is stored."""
    run = Run(environment, ddp())

    async def hasty(request: Request, forward: Forward) -> Answer:
        if request.verb == "DELETE" and request.plural == "pods":
            with contextlib.suppress(Refused):
                path = where("pods", run.namespace, request.name)
                await environment.api.call("DELETE", path, {"gracePeriodSeconds": 0})
        if request.verb == "PATCH" and b'"Succeeded"' in request.body and gone.is_set():
            await environment.api.call("DELETE", where("pytorchjobs", run.namespace, "a"))
        return await forward()

    gone = asyncio.Event()
    run.route.on_write = hasty
    async with run:
        await lives(run)
        gone.set()
        await environment.api.call("DELETE", where("pytorchjobs", run.namespace, "a"))
        await run.client.until("gone", lambda: run.client.document is None)
        await run.client.create()
        await run.client.running(*MEMBERS)
        await run.client.end("master-0", 0)
        await run.client.until("gone again", lambda: run.client.document is None)
        await run.client.nothing_left()
        await run.rest()
        assert "ERROR" not in run.supervisor.operator.log.read_text()
    assert run.violations() == ()
