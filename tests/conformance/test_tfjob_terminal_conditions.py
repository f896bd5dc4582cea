"""Running, Succeeded and Failed of a TFJob, by the ends of its pods (TO-152 to TO-169)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, UserClient
from support.jobs import job
from support.user_client import always

from .lifecycle import condition_types, create_running, end_pods, wait_for_conditions
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

TF = "TFJob"
RUNNING = ["Created", "Running"]
SUCCEEDED, FAILED = ["Created", "-Running", "Succeeded"], ["Created", "-Running", "Failed"]
PS_JOB = {"PS": 2, "Worker": 4}
WORKERS = {f"a-worker-{index}": 0 for index in range(4)}


def fail(pods: dict[str, int]) -> dict[str, int]:
    """The same pods, each ending with 1."""
    return dict.fromkeys(pods, 1)


@pytest.mark.parametrize(
    ("roles", "success", "codes", "expected"),
    [
        pytest.param(
            {"Chief": 1, "Worker": 1},
            "",
            {"a-worker-0": 0, "a-chief-0": 0},
            SUCCEEDED,
            marks=same("TO-152", "TFJob: chief and worker succeeded, so has the job"),
        ),
        pytest.param({"Chief": 1}, "", {}, RUNNING, marks=same("TO-153", "TFJob: the chief runs, so does the job")),
        pytest.param(
            {"Chief": 1}, "", {"a-chief-0": 1}, FAILED, marks=same("TO-154", "TFJob: the chief failed, so has the job")
        ),
        pytest.param(
            {"Worker": 1}, "", {"a-worker-0": 1}, FAILED, marks=same("TO-155", "TFJob: the only worker failed")
        ),
        pytest.param(
            {"Worker": 1}, "", {"a-worker-0": 0}, SUCCEEDED, marks=same("TO-156", "TFJob: the only worker succeeded")
        ),
        pytest.param({"Worker": 1}, "", {}, RUNNING, marks=same("TO-157", "TFJob: the only worker runs")),
        pytest.param(
            PS_JOB,
            "",
            {"a-worker-2": 1, "a-worker-3": 1},
            FAILED,
            marks=same("TO-159", "TFJob: with two of four workers failed the job no longer runs, it has failed"),
        ),
        pytest.param(
            PS_JOB,
            "",
            {"a-worker-0": 0},
            SUCCEEDED,
            marks=same("TO-161", "TFJob: worker 0 is done, which is enough without a chief"),
        ),
        pytest.param(
            {"Worker": 4},
            "AllWorkers",
            {"a-worker-0": 0},
            RUNNING,
            marks=same("TO-162", "TFJob, AllWorkers: worker 0 alone does not decide"),
        ),
        pytest.param(
            {"Worker": 4}, "AllWorkers", WORKERS, SUCCEEDED, marks=same("TO-163", "TFJob, AllWorkers: all succeeded")
        ),
        pytest.param(
            {"Worker": 4},
            "AllWorkers",
            {"a-worker-0": 0, "a-worker-1": 1},
            FAILED,
            marks=same("TO-164", "TFJob, AllWorkers: one failed, one succeeded, two run"),
        ),
        pytest.param(
            {"Chief": 1, "Worker": 4},
            "",
            fail(WORKERS),
            FAILED,
            marks=same("TO-165", "TFJob: the workers failed beside a running chief"),
        ),
        pytest.param(
            {"Chief": 1, "Worker": 4},
            "",
            WORKERS,
            RUNNING,
            marks=same("TO-166", "TFJob: workers that succeed do not end a job whose chief runs"),
        ),
        pytest.param(
            {"Chief": 1, "PS": 2, "Worker": 1},
            "",
            {"a-worker-0": 0, "a-ps-1": 1},
            FAILED,
            marks=same("TO-167", "TFJob: a parameter server failed beside a running chief"),
        ),
        pytest.param(
            {"Chief": 1, "Worker": 2},
            "",
            {"a-worker-0": 0, "a-worker-1": 0, "a-chief-0": 1},
            FAILED,
            marks=same("TO-168", "TFJob: the chief failed though the workers succeeded"),
        ),
        pytest.param(
            {"Chief": 1, "Worker": 4},
            "",
            {"a-chief-0": 0, **fail(WORKERS)},
            SUCCEEDED,
            marks=differs("TO-169", "D4", "TFJob: the chief succeeded and the workers failed: one verdict, success"),
        ),
    ],
)
def test_what_becomes_of_a_tfjob(
    user: UserClient, kubelet: FakeKubelet, *, roles: dict, success: str, codes: dict, expected: list
):
    wanted = job(TF, "a", **roles)
    wanted["spec"]["successPolicy"] = success
    create_running(user, wanted, sum(roles.values()))
    end_pods(kubelet, codes)
    wait_for_conditions(user, TF, "a", *expected)
    if expected == RUNNING and codes:
        always(lambda: condition_types(user, TF, "a") == RUNNING)
    if codes.get("a-chief-0") == 0:
        always(lambda: condition_types(user, TF, "a") == SUCCEEDED)


def without_statuses(user: UserClient, *pods: str) -> None:
    """Pods succeed without statuses of their containers."""
    for name in pods:
        user.set_pod_status(name, {"phase": "Succeeded", "containerStatuses": None})


@differs("TO-158", "D34", "TFJob: worker 0 succeeded, without container statuses: success")
def test_a_success_is_believed_without_an_exit_code(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", **PS_JOB), 6)
    without_statuses(user, "a-worker-1", "a-worker-2")
    always(lambda: condition_types(user, TF, "a") == RUNNING)
    without_statuses(user, "a-worker-0")
    wait_for_conditions(user, TF, "a", *SUCCEEDED)


@same("TO-160", "TFJob: two workers succeeded without exit codes, two failed: failure")
def test_failures_beside_successes_without_an_exit_code(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", **PS_JOB), 6)
    without_statuses(user, "a-worker-1", "a-worker-2")
    end_pods(kubelet, {"a-worker-0": 1, "a-worker-3": 1})
    wait_for_conditions(user, TF, "a", *FAILED)
