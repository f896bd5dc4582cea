"""Whatever a user writes into the objects of a job or into its status, the job ends and the operator is quiet."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.job_run import CORE, MAX_REQUESTS, QUIET_SECONDS, JobRun, group, job_status, log, pod
from simulation.malformed_values import CONFIG_MAPS, GROUPS, JOB_STATUS, METADATA, OBSTACLES, OWNED, SERVICES, STATUSES


def problems(run: JobRun, path: str, patch: dict[str, Any], end: str = "Succeeded") -> list[str]:
    """Return the problems at the end of a job into which this value was written."""
    with log() as found:
        run.run(path, patch)
        found_problems = run.problems(found, end)
    run.close()
    return found_problems


@pytest.mark.fault("J18")
@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("what", METADATA)
def test_malformed_metadata_of_a_pod_neither_block_a_job_nor_make_a_loop(what, scope):
    assert problems(JobRun(scope=scope), pod(), METADATA[what]) == []


@pytest.mark.fault("J18")
@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("what", STATUSES)
def test_a_malformed_status_of_a_pod_neither_blocks_a_job_nor_makes_a_loop(what, scope):
    assert problems(JobRun(scope=scope), pod(part="/status"), STATUSES[what]) == []


@pytest.mark.parametrize("what", STATUSES)
def test_a_malformed_status_of_a_pod_does_not_keep_a_job_from_failing(what):
    assert problems(JobRun("JAXJob", restart="Never"), pod(part="/status"), STATUSES[what], "Failed") == []


@pytest.mark.parametrize("what", SERVICES)
def test_a_malformed_service_neither_blocks_a_job_nor_makes_a_loop(what):
    assert problems(JobRun(), f"{CORE}/services/job-worker-0", SERVICES[what]) == []


@pytest.mark.parametrize("what", CONFIG_MAPS)
def test_a_malformed_config_map_neither_blocks_a_job_nor_makes_a_loop(what):
    assert problems(JobRun("MPIJob"), f"{CORE}/configmaps/job-config", CONFIG_MAPS[what]) == []


@pytest.mark.parametrize("what", OBSTACLES)
def test_a_config_map_that_cannot_be_repaired_is_reported_until_it_is_deleted(what):
    run = JobRun("MPIJob")
    with log() as found:
        run.run(f"{CORE}/configmaps/job-config", OBSTACLES[what])
        assert "Blocked" in run.states()
        assert run.request_count() <= MAX_REQUESTS
        run.cluster.server.request("user", "DELETE", f"{CORE}/configmaps/job-config")
        run.cluster.loop.run_for(QUIET_SECONDS)
        assert "Succeeded" in run.states()
    assert found.tracebacks() == []
    run.close()


@pytest.mark.parametrize("what", OWNED)
def test_other_malformed_objects_neither_block_a_job_nor_make_a_loop(what):
    kind, path, patch = OWNED[what]
    assert problems(JobRun(kind, scope="Job"), path, patch) == []


@pytest.mark.parametrize("what", GROUPS)
def test_a_malformed_pod_group_neither_blocks_a_job_nor_makes_a_loop(what):
    assert problems(JobRun(gang="volcano"), group(), GROUPS[what]) == []


@pytest.mark.fault("J18")
@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("what", JOB_STATUS)
def test_a_malformed_status_of_a_job_neither_blocks_it_nor_makes_a_loop(what, scope):
    assert problems(JobRun(scope=scope), job_status(), {"status": JOB_STATUS[what]}) == []
