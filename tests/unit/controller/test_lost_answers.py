"""A status whose response was lost is stored nevertheless, and its transitions are counted once."""

from __future__ import annotations

import pytest

from support.harness import Harness, a_spec
from trainshed.client import Unavailable


@pytest.mark.fault("A6")
async def test_a_restart_whose_status_response_was_lost_is_counted_once():
    harness = Harness(a_spec(Chief=1, Worker=2, restart="ExitCode", policy={"backoffLimit": 3}))
    await harness.run_all()
    harness.world.set_pod("mnist-worker-1", "Failed", code=137)
    harness.hear()
    harness.world.lose_response("store_status")
    outcome = await harness.reconcile(deaf=True)
    assert isinstance(outcome.error, Unavailable)
    await harness.reconcile(3, deaf=True)
    harness.hear()
    await harness.reconcile(5, seconds=2)
    status = harness.job()["status"]
    assert (status["restarts"], status["attempts"]) == (1, {"Chief": 1, "Worker": 1})


@pytest.mark.fault("A8")
async def test_a_terminal_condition_whose_response_was_lost_stays():
    harness = Harness(a_spec(Chief=1, Worker=2))
    await harness.run_all()
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()
    harness.world.lose_response("store_status")
    assert isinstance((await harness.reconcile(deaf=True)).error, Unavailable)
    verdict = harness.job()["status"]
    await harness.reconcile(5, seconds=2)
    assert harness.job()["status"] == verdict
