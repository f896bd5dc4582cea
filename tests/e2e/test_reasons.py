"""The ends of replicas on a real node: status, condition and one Warning name the replica, the node and the cause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import UserClient
from support.jobs import pod_spec, pytorchjob
from support.user_client import eventually
from testbed.images import PYTHON

from .conftest import PATIENCE, new_namespace

KIND = "PyTorchJob"
WHERE = r"worker-0 on \S+"
#: What a program that is killed may have said last.
SAID = "(; its last line: .*)?"
IDLE = ["sleep", "3600"]


def python(program: str) -> list[str]:
    """A command that runs for a second before it does this."""
    return ["python3", "-c", f"import os, time; time.sleep(1.5); {program}"]


#: Process 1 ignores its own signals; its child does not. In a pod's command $$$$ stands for $$.
KILLED = ["sh", "-c", "sleep 1.5; sh -c 'kill -s KILL $$$$'; exit $?"]
CRASHED = ["sh", "-c", "sleep 1.5; sh -c 'kill -s SEGV $$$$'; exit $?"]
TOO_MUCH = python("hoard = [bytes(b'x' * 2**20) for _ in range(4096)]")


def a_job(name: str, command: list[str], **fields: object) -> dict:
    """A master that waits and a worker that does this; `policy` and `restart`: support.jobs, the rest for the pod."""
    policy, restart = fields.pop("policy", None), fields.pop("restart", "Never")
    limits, annotations = fields.pop("limits", None), fields.pop("annotations", {})
    job = pytorchjob(name, policy=(policy or {}) | {"cleanPodPolicy": "All"}, restart=restart, Master=1, Worker=1)
    for role, what in (("Master", IDLE), ("Worker", command)):
        spec = pod_spec(job, role)
        spec["terminationGracePeriodSeconds"] = 1
        spec["containers"][0] |= {"image": PYTHON, "command": what, "imagePullPolicy": "IfNotPresent"}
    container = pod_spec(job, "Worker")["containers"][0]
    container |= {"image": fields.pop("image", PYTHON)} | ({"resources": {"limits": limits}} if limits else {})
    pod_spec(job, "Worker").update(fields)
    job["metadata"]["annotations"] = annotations
    return job


def verdict(user: UserClient, name: str) -> tuple[dict, str]:
    """Return the failure in the status, and the message of the condition Failed, which is that of one Warning."""
    condition = eventually(lambda: user.conditions(KIND, name).get("Failed"), PATIENCE)
    status = user.job(KIND, name)["status"]
    warning = ("Warning", f"{KIND}Failed", condition["message"])
    eventually(lambda: warning in user.events(name), 30)
    warnings = [event for event in user.events(name) if event[:2] == warning[:2]]
    assert warnings == [warning]
    assert status["failure"]["message"] in condition["message"]
    return status["failure"], condition["message"]


def is_the_workers(failure: dict, **expected: object) -> None:
    """The failure has these values, and is worker 0's, on a node."""
    known = {key: failure.get(key) for key in expected}
    assert known == expected, failure
    assert (failure["replica"], failure["node"] != "") == ("worker-0", True)


#: On a busy node containerd reports about one of ten such kills as a mere Error.
TOOK_TOO_MUCH = (
    r"(was OOMKilled \(limit 64Mi\) \d+s after start|was killed by SIGKILL \(137\) \d+s after start; "
    r"perhaps it used more memory than its limit of 64Mi)"
)

CASES = {
    "traceback": (
        a_job("traceback", python("raise ValueError('bad batch')")),
        {"class": "Application", "reason": "Error", "exitCode": 1},
        rf"{WHERE} exited with code 1 after \d+s: ValueError: bad batch; restartPolicy is Never",
    ),
    "three": (
        a_job("three", python("os._exit(3)"), restart="ExitCode"),
        {"class": "Application", "reason": "Error", "exitCode": 3},
        rf"{WHERE} exited with code 3 after \d+s; restartPolicy ExitCode retries only exit codes 128 and above",
    ),
    "oom": (
        a_job("oom", TOO_MUCH, limits={"memory": "64Mi"}),
        {"class": "Application", "exitCode": 137},
        rf"{WHERE} {TOOK_TOO_MUCH}; restartPolicy is Never",
    ),
    "crash": (
        a_job("crash", CRASHED),
        {"class": "Application", "exitCode": 139},
        rf"{WHERE} crashed with a segmentation fault \(SIGSEGV, 139\) \d+s after start{SAID}; restartPolicy is Never",
    ),
    "fetch": (
        a_job(
            "fetch",
            IDLE,
            initContainers=[{"name": "fetch", "image": PYTHON, "command": python("os._exit(4)")}],
        ),
        {"class": "Application", "exitCode": 4, "container": "fetch"},
        r"container fetch of worker-0 on \S+ exited with code 4 after \d+s; restartPolicy is Never",
    ),
    "nothing": (
        a_job("nothing", ["/no/such/program"]),
        {"class": "Application", "reason": "StartError", "exitCode": None},
        rf"{WHERE} could not be started \(StartError\): .*no such file or directory.*; restartPolicy is Never",
    ),
    "image": (
        a_job("image", IDLE, image="localhost/none:1", annotations={"trainshed.dev/startup-deadline": "60s"}),
        {"class": "Infrastructure", "container": None},
        rf"{WHERE} did not start running within 60s of pod creation: image localhost/none:1 cannot be pulled",
    ),
}


@pytest.fixture(scope="module")
def cases(kubeconfig: str) -> Iterator[UserClient]:
    """A user with the job of each case. All are created before the first is looked at: one takes a minute."""
    with new_namespace(kubeconfig) as kubectl:
        user = UserClient(Path(kubeconfig), kubectl.command[-1])
        for job, *_ in CASES.values():
            user.create(job)
        yield user


@pytest.mark.parametrize("name", CASES)
def test_the_status_and_one_warning_say_why_a_job_failed(name: str, cases: UserClient) -> None:
    _, expected, words = CASES[name]
    failure, message = verdict(cases, name)
    is_the_workers(failure, **expected)
    assert re.search(words, message), message
    if name == "traceback":
        assert failure["terminationMessage"].startswith("Traceback (most recent call last):")
        assert 1 <= failure["runDurationSeconds"] <= 60


def test_a_killed_worker_is_tried_again_and_both_failures_are_reported(user: UserClient) -> None:
    user.create(a_job("killed", KILLED, restart="ExitCode", policy={"backoffLimit": 1}))
    failure, message = verdict(user, "killed")
    is_the_workers(failure, exitCode=137, reason="Error")
    end = rf"{WHERE} was killed by SIGKILL \(137\) \d+s after start{SAID}"
    assert re.search(rf"backoff limit: 1 of 1 restart used; last failure: {end}", message), message
    warnings = [
        text for kind, reason, text in user.events("killed") if (kind, reason) == ("Warning", f"{KIND}Restarting")
    ]
    expected = rf"failed\. {end}; restarting all 2 replicas now \(restart 1 of 1\)"
    assert [bool(re.search(expected, text)) for text in warnings] == [True], warnings
    (restart,) = user.job(KIND, "killed")["status"]["recentRestarts"]
    fields = {
        "attempt": 2,
        "replica": "worker-0",
        "class": "Application",
        "reason": "Error",
        "exitCode": 137,
        "replicasRestarted": 2,
    }
    assert fields.items() <= restart.items()
    assert 1 <= restart["recoverySeconds"] <= PATIENCE


def all_run(user: UserClient, name: str) -> bool:
    """Return whether the job and both of its pods run."""
    return user.state(KIND, name) == "Running" and all(pod["status"]["phase"] == "Running" for pod in user.pods(name))


def runs(user: UserClient, name: str) -> object:
    """The job, once it runs and the restart has its time."""
    found = user.job(KIND, name)
    restarts = found.get("status", {}).get("recentRestarts", [])
    settled = restarts and all("recoverySeconds" in restart for restart in restarts)
    return found if user.state(KIND, name) == "Running" and settled else None


def test_an_evicted_worker_comes_back_and_the_status_says_when(user: UserClient) -> None:
    user.create(a_job("evicted", IDLE, policy={"backoffLimit": 0}))
    eventually(lambda: all_run(user, "evicted"), PATIENCE)
    evict(user, "evicted-worker-0")
    status = eventually(lambda: runs(user, "evicted"), PATIENCE)["status"]
    assert status.get("restarts", 0) == 0
    is_the_workers(status["failure"], **{"class": "Disruption", "reason": "EvictionByEvictionAPI"})
    (restart,) = status["recentRestarts"]
    assert (restart["reason"], restart["replicasRestarted"]) == ("EvictionByEvictionAPI", 2)
    warnings = [
        text for kind, reason, text in user.events("evicted") if (kind, reason) == ("Warning", f"{KIND}Restarting")
    ]
    end = rf"{WHERE} was evicted through the API, .* \(EvictionByEvictionAPI\) \d+s after start; "
    assert [bool(re.search(end + r".*restarting all 2 replicas now \(not counted", text)) for text in warnings] == [
        True
    ], warnings


def evict(user: UserClient, name: str) -> None:
    """Evict a pod as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": user.namespace}}
    user.call("POST", f"/api/v1/namespaces/{user.namespace}/pods/{name}/eviction", eviction)
