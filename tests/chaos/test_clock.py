"""Wrong clocks, equal times, and deadlines that pass while no operator runs."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import FakeKubelet, Operator, UserClient
from support.audit_log import requests
from support.builders import a_job, a_pod, at, plan_for, run_policy, running
from support.jobs import tfjob
from support.replace import replace
from support.user_client import always, eventually
from testbed.control_plane import ControlPlane
from trainshed.api.actions import Plan

Begin = Callable[..., Operator]
HOUR = 3600
#: Starts the operator with its wall clock off by this number of seconds.
WRONG = "import time; right = time.time; time.time = lambda: right() + {}; from trainshed.__main__ import main; main()"

ENDS = st.sampled_from([("Running", None), ("Failed", 1), ("Failed", 137), ("Failed", 139), ("Succeeded", 0)])


@pytest.mark.fault("F3")
@settings(max_examples=300)
@given(
    ends=st.lists(ENDS, min_size=4, max_size=4),
    kind=st.sampled_from(["TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob"]),
    restart=st.sampled_from(["Never", "OnFailure", "ExitCode"]),
    scope=st.sampled_from(["", "Replica", "Role", "Job"]),
    seed=st.integers(0, 2**32),
)
def test_the_order_of_what_happened_in_the_same_second_does_not_change_the_plan(
    ends: list, kind: str, restart: str, scope: str, seed: int
):
    job = a_job(kind, restart=restart, scope=scope, policy=run_policy(backoff_limit=2), worker=4)
    pods = [
        a_pod(f"worker-{number}", phase, code=code, ended=5, created=at(0), container="x", why="Error")
        for number, (phase, code) in enumerate(ends)
    ]
    status = running(job)
    first = decided(plan_for(job, *pods, status=status, now=at(60)))
    random.Random(seed).shuffle(pods)
    assert decided(plan_for(job, *pods, status=status, now=at(60))) == first


def decided(found: Plan) -> tuple:
    """Return a plan in a comparable form: the order in which pods are deleted does not matter."""
    status = replace(found.status, pending_replacement=tuple(sorted(found.status.pending_replacement)))
    return status, set(found.events), sorted(map(repr, found.actions)), found.requeue_at


@pytest.mark.fault("F1")
@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["an hour fast", "an hour slow"])
def test_a_wrong_clock_shifts_no_deadline(off: int, second_user: UserClient, begin: Begin):
    first = begin()
    with FakeKubelet(second_user) as kubelet:
        second_user.create(tfjob("known", policy={"activeDeadlineSeconds": 2 * HOUR}, Worker=1))
        eventually(lambda: second_user.state("TFJob", "known") == "Running", 20)
        first.kill()
        begin(program=(sys.executable, "-c", WRONG.format(off)))
        second_user.create(tfjob("late", policy={"activeDeadlineSeconds": 4}, Worker=1))
        second_user.create(tfjob("done", policy={"ttlSecondsAfterFinished": 4}, Worker=1))
        second_user.create(tfjob("again", policy={"backoffLimit": 1}, restart="ExitCode", Worker=1))
        eventually(lambda: all(second_user.state("TFJob", name) == "Running" for name in ("late", "done", "again")), 20)
        began = time.monotonic()
        kubelet.end("done-worker-0", 0)
        kubelet.end("again-worker-0", 137)
        eventually(lambda: second_user.state("TFJob", "late") == "Failed", 10)
        eventually(lambda: second_user.job("TFJob", "done") is None, 10)
        eventually(
            lambda: kubelet.created.count("again-worker-0") == 2 and second_user.state("TFJob", "again") == "Running",
            20,
        )
        assert time.monotonic() - began >= 2
        always(lambda: second_user.state("TFJob", "known") == "Running", 1)


@pytest.mark.fault("I6")
def test_a_deadline_that_passes_without_an_operator_fires_at_the_next_start(second_user: UserClient, begin: Begin):
    first = begin()
    with FakeKubelet(second_user):
        second_user.create(tfjob("late", policy={"activeDeadlineSeconds": 3}, Worker=1))
        second_user.create(tfjob("later", policy={"activeDeadlineSeconds": 20}, Worker=1))
        eventually(lambda: second_user.state("TFJob", "late") == second_user.state("TFJob", "later") == "Running", 20)
        first.kill()
        time.sleep(4)
        begin()
        eventually(lambda: second_user.state("TFJob", "late") == "Failed", 5)
        eventually(lambda: second_user.state("TFJob", "later") == "Failed", 40)
        found = second_user.job("TFJob", "later")["status"]
        lived = datetime.fromisoformat(found["completionTime"]) - datetime.fromisoformat(found["startTime"])
        assert timedelta(seconds=19) <= lived <= timedelta(seconds=23)


@pytest.mark.fault("I8")
def test_a_job_created_and_deleted_without_an_operator_leaves_nothing(
    second_server: ControlPlane, second_user: UserClient, begin: Begin
):
    first = begin()
    with FakeKubelet(second_user):
        second_user.create(tfjob("ran", Worker=2))
        eventually(lambda: second_user.state("TFJob", "ran") == "Running", 20)
        first.kill()
        second_user.create(tfjob("unseen", Worker=2))
        second_user.delete_job("TFJob", "unseen")
        second_user.delete_job("TFJob", "ran")
        before = len(requests(second_server, "trainshed", second_user.namespace))
        second = begin()
        eventually(lambda: not second_user.pods() and not second_user.core("services"), 30)
        always(lambda: not second_user.pods(), 1)
        asked = requests(second_server, "trainshed", second_user.namespace)[before:]
        assert not [request for request in asked if request.writes]
    assert second.complaints() == []
