"""Whatever somebody writes into what a job owns, or into its status, the job reaches its end and the operator rests."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.absurd import CORE, COST, REST, Tale, group, job, log, pod
from simulation.absurdities import CONFIG_MAPS, GROUPS, JOB_STATUS, METADATA, OBSTACLES, OWNED, SERVICES, STATUSES


def live(tale: Tale, path: str, patch: dict[str, Any], end: str = "Succeeded") -> list[str]:
    """What is wrong at the end of a job into which this was written."""
    with log() as found:
        tale.run(path, patch)
        wrong = tale.wrong(found, end)
    tale.close()
    return wrong


@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("what", METADATA)
def test_absurd_metadata_of_a_pod_neither_wedge_a_job_nor_make_a_loop(what, scope):
    assert live(Tale(scope=scope), pod(), METADATA[what]) == []


@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("what", STATUSES)
def test_an_absurd_status_of_a_pod_neither_wedges_a_job_nor_makes_a_loop(what, scope):
    assert live(Tale(scope=scope), pod(part="/status"), STATUSES[what]) == []


@pytest.mark.parametrize("what", STATUSES)
def test_an_absurd_status_of_a_pod_does_not_keep_a_job_from_failing(what):
    assert live(Tale("JAXJob", restart="Never"), pod(part="/status"), STATUSES[what], "Failed") == []


@pytest.mark.parametrize("what", SERVICES)
def test_an_absurd_service_neither_wedges_a_job_nor_makes_a_loop(what):
    assert live(Tale(), f"{CORE}/services/job-worker-0", SERVICES[what]) == []


@pytest.mark.parametrize("what", CONFIG_MAPS)
def test_an_absurd_config_map_neither_wedges_a_job_nor_makes_a_loop(what):
    assert live(Tale("MPIJob"), f"{CORE}/configmaps/job-config", CONFIG_MAPS[what]) == []


@pytest.mark.parametrize("what", OBSTACLES)
def test_a_config_map_that_cannot_be_mended_is_reported_until_somebody_deletes_it(what):
    tale = Tale("MPIJob")
    with log() as found:
        tale.run(f"{CORE}/configmaps/job-config", OBSTACLES[what])
        assert "Blocked" in tale.states()
        assert tale.cost() <= COST
        tale.stage.server.request("user", "DELETE", f"{CORE}/configmaps/job-config")
        tale.stage.loop.run_for(REST)
        assert "Succeeded" in tale.states()
    assert found.tracebacks() == []
    tale.close()


@pytest.mark.parametrize("what", OWNED)
def test_whatever_else_a_job_owns_neither_wedges_it_nor_makes_a_loop(what):
    kind, path, patch = OWNED[what]
    assert live(Tale(kind, scope="Job"), path, patch) == []


@pytest.mark.parametrize("what", GROUPS)
def test_an_absurd_pod_group_neither_wedges_a_job_nor_makes_a_loop(what):
    assert live(Tale(gang="volcano"), group(), GROUPS[what]) == []


@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("what", JOB_STATUS)
def test_an_absurd_status_of_a_job_neither_wedges_it_nor_makes_a_loop(what, scope):
    assert live(Tale(scope=scope), job("TFJob"), {"status": JOB_STATUS[what]}) == []
