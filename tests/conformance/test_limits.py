"""Limits, deadlines and times to live, and the objects that a finished job keeps (TO-201 to TO-219)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from support import FakeKubelet, UserClient
from support.jobs import job
from support.pods import names
from support.user_client import always, eventually

from .lifecycle import (
    condition_types,
    create_running,
    end_pods,
    replica_statuses,
    set_condition,
    status,
    suspend,
    wait_for_conditions,
)
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

TF, PT = "TFJob", "PyTorchJob"
SIX = ["a-ps-0", "a-ps-1", "a-worker-0", "a-worker-1", "a-worker-2", "a-worker-3"]
LIMIT = "has failed because it has reached the specified backoff limit: "
DEADLINE = "has failed because it was active longer than specified deadline: "


def left(user: UserClient) -> tuple[list[str], list[str]]:
    """The names of the pods and of the Services."""
    return names(user.pods()), names(user.core("services"))


def six(user: UserClient, **policy: object) -> None:
    """A TFJob of two parameter servers and four workers, all of which run."""
    create_running(user, job(TF, "a", policy=policy, PS=2, Worker=4), 6)


@pytest.mark.parametrize(
    ("policy", "codes", "remain"),
    [
        pytest.param(
            "All", {}, [], marks=same("TO-201", "a job that succeeded, its pods running, All: no pod, no Service stays")
        ),
        pytest.param("Running", {}, [], marks=same("TO-202", "the same, Running: no pod, no Service stays")),
        pytest.param(
            "Running",
            dict.fromkeys(SIX, 0),
            SIX,
            marks=same("TO-203", "a job that succeeded, its pods too, Running: all pods and Services stay"),
        ),
        pytest.param("None", dict.fromkeys(SIX, 0), SIX, marks=same("TO-204", "the same, None: all of them stay")),
    ],
)
def test_what_stays_of_a_success(user: UserClient, kubelet: FakeKubelet, policy: str, codes: dict, remain: list):
    wanted = job(TF, "a", policy={"cleanPodPolicy": policy}, PS=2, Worker=4)
    wanted["spec"]["successPolicy"] = "AllWorkers"
    create_running(user, wanted, 6)
    if codes:
        end_pods(kubelet, codes)
        eventually(lambda: "Succeeded" in condition_types(user, TF, "a"))
    else:
        set_condition(user, TF, "a", "Succeeded", completionTime="2026-01-01T00:00:00Z")
    eventually(lambda: left(user) == (remain, remain))
    always(lambda: left(user) == (remain, remain))


@same("TO-205", "which pods and Services go: the running ones, all, or none; all of them when a job is suspended")
def test_what_goes(user: UserClient, kubelet: FakeKubelet):
    for name, policy in (("some", "Running"), ("all", "All"), ("none", "None"), ("idle", "Running"), ("off", "None")):
        create_running(user, job(TF, name, policy={"cleanPodPolicy": policy}, Worker=2), 2)
    end_pods(kubelet, {"some-worker-0": 0, "all-worker-0": 0, "none-worker-0": 1})
    for name in ("idle", "off"):
        suspend(user, TF, name)
    kept = ["none-worker-0", "none-worker-1", "some-worker-0"]
    eventually(lambda: left(user) == (kept, kept))
    eventually(lambda: "Failed" in condition_types(user, TF, "none"))
    always(lambda: left(user) == (kept, kept))


@same("TO-206", "Running: a pod that is still pending goes, too")
def test_a_pending_pod_goes(user: UserClient, kubelet: FakeKubelet):
    kubelet.script = lambda name: "Running" if name == "a-worker-0" else ""
    user.create(job(TF, "a", policy={"cleanPodPolicy": "Running"}, Worker=2))
    eventually(lambda: "Running" in condition_types(user, TF, "a"))
    kubelet.end("a-worker-0", 0)
    eventually(lambda: names(user.pods()) == ["a-worker-0"])


@same("TO-207", "after success those that still run count as succeeded")
def test_how_the_rest_is_counted(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(PT, "a", Master=1, Worker=2), 3)
    kubelet.end("a-master-0", 0)
    wait_for_conditions(user, PT, "a", "Created", "-Running", "Succeeded")
    counts = replica_statuses(user, PT, "a")
    assert (counts["Master"]["succeeded"], counts["Worker"]["succeeded"]) == (1, 2)
    assert "active" not in counts["Worker"]
    assert user.pod("a-worker-0")["status"]["phase"] == "Running"


@same("TO-208", "without a deadline pods stay; with one the job fails in time, and All takes its pods and Services")
def test_a_deadline(user: UserClient, kubelet: FakeKubelet):
    six(user)
    always(lambda: left(user) == (SIX, SIX))
    user.create(job(TF, "b", policy={"activeDeadlineSeconds": 2, "cleanPodPolicy": "All"}, PS=2, Worker=4))
    eventually(lambda: user.state(TF, "b") == "Failed", 20)
    assert user.conditions(TF, "b")["Failed"]["message"].startswith(f"Job b {DEADLINE}limit 2s; ")
    eventually(lambda: left(user) == (SIX, SIX))


@differs("TO-209", "D1", "a job that runs quietly fails at its deadline, within a second or so")
def test_a_quiet_deadline(user: UserClient, kubelet: FakeKubelet):
    six(user, activeDeadlineSeconds=2)
    eventually(lambda: user.state(TF, "a") == "Failed", 6)
    found = status(user, TF, "a")
    times = [datetime.fromisoformat(found[field]) for field in ("startTime", "completionTime")]
    assert 1 <= (times[1] - times[0]).total_seconds() <= 4


@differs("TO-210", "D58", "at the deadline, None: pods that run are stopped, and finished ones stay")
def test_a_deadline_stops_pods(user: UserClient, kubelet: FakeKubelet):
    six(user, activeDeadlineSeconds=3)
    kubelet.end("a-worker-3", 0)
    eventually(lambda: user.state(TF, "a") == "Failed", 8)
    eventually(lambda: left(user) == (["a-worker-3"], ["a-worker-3"]))
    always(lambda: left(user) == (["a-worker-3"], ["a-worker-3"]))
    counts = eventually(
        lambda: (found := replica_statuses(user, TF, "a")) and not found["Worker"].get("active") and found
    )
    assert counts["Worker"]["succeeded"] == 1
    assert "active" not in counts["PS"]
    assert status(user, TF, "a")["ready"] == "0/6"


@same("TO-211", "a deadline of 0 is over at once, one of many seconds is not")
def test_when_a_deadline_is_over(user: UserClient, kubelet: FakeKubelet):
    user.create(job(TF, "now", policy={"activeDeadlineSeconds": 0}, Worker=1))
    create_running(user, job(TF, "later", policy={"activeDeadlineSeconds": 60}, Worker=1), 1)
    eventually(lambda: user.state(TF, "now") == "Failed")
    assert user.state(TF, "later") == "Running"


@same("TO-212", "backoffLimit 4: four containers restarted once each are too many; All takes the pods")
def test_restarts_in_sum(user: UserClient, kubelet: FakeKubelet):
    policy = {"backoffLimit": 4, "cleanPodPolicy": "All"}
    create_running(user, job(TF, "a", policy=policy, restart="OnFailure", Worker=4), 4)
    for index in range(4):
        kubelet.restart_in_place(f"a-worker-{index}", 1)
    assert eventually(lambda: user.conditions(TF, "a").get("Failed"))["message"].startswith(f"Job a {LIMIT}")
    eventually(lambda: left(user) == ([], []))


@same("TO-213", "backoffLimit 0 allows no restart and 3 fails at the third; without restarts neither does")
def test_when_restarts_are_too_many(user: UserClient, kubelet: FakeKubelet):
    for name, limit in (("zero", 0), ("three", 3)):
        create_running(user, job(TF, name, policy={"backoffLimit": limit}, restart="OnFailure", Worker=1), 1)
    kubelet.restart_in_place("three-worker-0", 2)
    always(lambda: user.state(TF, "zero") == user.state(TF, "three") == "Running")
    kubelet.restart_in_place("three-worker-0", 3)
    eventually(lambda: user.state(TF, "three") == "Failed")
    assert user.state(TF, "zero") == "Running"


@differs("TO-214", "D58", "past the limit pods that run are stopped; None and Running keep those that have ended")
def test_what_stays_past_the_limit(user: UserClient, kubelet: FakeKubelet):
    for name in ("none", "all", "running"):
        policy = {"backoffLimit": 1, "cleanPodPolicy": name.capitalize()}
        create_running(user, job(TF, name, policy=policy, restart="OnFailure", Worker=3), 3)
        kubelet.end(f"{name}-worker-2", 0)
        kubelet.restart_in_place(f"{name}-worker-0", 1)
    eventually(lambda: names(user.pods()) == ["none-worker-2", "running-worker-2"])
    always(lambda: names(user.pods()) == ["none-worker-2", "running-worker-2"])


@differs("TO-215", "D2", "backoffLimit 2 with ExitCode: after two retries the job has failed")
def test_retries_are_counted(user: UserClient, kubelet: FakeKubelet):
    kubelet.script = lambda _name: "137"
    user.create(job(TF, "a", policy={"backoffLimit": 2}, restart="ExitCode", Worker=1))
    assert eventually(lambda: user.conditions(TF, "a").get("Failed"), 20)["message"].startswith(f"Job a {LIMIT}")
    assert kubelet.created.count("a-worker-0") == 3


@same("TO-216", "backoffLimit 0: the first failure is one too many")
def test_no_failure_at_all(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", policy={"backoffLimit": 0}, Worker=2), 2)
    kubelet.end("a-worker-1", 1)
    assert eventually(lambda: user.conditions(TF, "a").get("Failed"))["message"].startswith(f"Job a {LIMIT}")


@same("TO-217", "a job that succeeded or failed is deleted when its time to live is over")
def test_a_time_to_live(user: UserClient, kubelet: FakeKubelet):
    for name in ("won", "lost"):
        create_running(user, job(TF, name, policy={"ttlSecondsAfterFinished": 3}, Worker=1), 1)
    end_pods(kubelet, {"won-worker-0": 0, "lost-worker-0": 1})
    eventually(lambda: {user.state(TF, "won"), user.state(TF, "lost")} == {"Succeeded", "Failed"})
    eventually(lambda: user.jobs(TF) == [], 8)


@same("TO-218", "TTL: a job without one, a suspended job and a job without completionTime are not deleted")
def test_who_is_deleted(user: UserClient, kubelet: FakeKubelet):
    long_ago, now = (datetime.now(UTC) - timedelta(days=1), datetime.now(UTC))
    jobs = {"none": None, "old": 180, "just": 0, "open": 10, "paused": 0}
    for name, ttl in jobs.items():
        policy = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
        create_running(user, job(TF, name, policy=policy, Worker=1), 1)
    suspend(user, TF, "paused")
    for name, time_ in (("none", long_ago), ("old", long_ago), ("just", now)):
        set_condition(user, TF, name, "Succeeded", completionTime=time_.strftime("%Y-%m-%dT%H:%M:%SZ"))
    set_condition(user, TF, "open", "Succeeded")
    eventually(lambda: names(user.jobs(TF)) == ["none", "open", "paused"])
    always(lambda: names(user.jobs(TF)) == ["none", "open", "paused"])


@same("TO-219", "a time to live ends just so many seconds after completion")
def test_when_a_time_to_live_ends(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", policy={"ttlSecondsAfterFinished": 2}, Worker=1), 1)
    kubelet.end("a-worker-0", 0)
    completed = eventually(lambda: status(user, TF, "a").get("completionTime"))
    end = datetime.fromisoformat(completed).timestamp() + 2
    eventually(lambda: user.job(TF, "a") is None, 6)
    assert end - 0.1 <= time.time() <= end + 2.5
